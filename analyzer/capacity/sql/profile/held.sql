-- Which GPU the runs held in which hour, how much of it, and between which moments they were there.
CREATE OR REPLACE TEMP TABLE profile_held AS
SELECT l.hour, l.gpu_uuid, l.node, l.sku, sum(l.milliseconds)::BIGINT AS ms, min(r.started_at) AS from_us,
    max(coalesce(r.ended_at, $end)) AS until_us
FROM ledger l LEFT JOIN runs r USING (run_id)
WHERE l.hour >= $start AND l.hour < $end AND list_contains($runs::VARCHAR[], l.run_id) GROUP BY ALL;

-- What was read of these GPUs meanwhile, added up by GPU and hour.
CREATE OR REPLACE TEMP TABLE profile_hours AS
SELECT h.sku, h.gpu_uuid, h.node, h.hour, any_value(h.ms) AS held_ms,
    sum((t.ended_at - t.started_at) // 1000)::BIGINT AS ms, max(memory_used_bytes)::BIGINT AS memory,
    sum(nvlink_transmit_bytes)::HUGEINT AS nvlink, sum(pcie_receive_bytes)::HUGEINT AS pcie,
        sum((t.ended_at - t.started_at) // 1000) FILTER (pcie_receive_bytes IS NOT NULL)::BIGINT AS pcie_ms
FROM gpu_samples t JOIN profile_held h ON h.gpu_uuid = t.gpu_uuid AND h.hour = t.started_at // 3600000000 * 3600000000
WHERE t.started_at >= $start AND t.started_at < $end AND t.started_at >= coalesce(h.from_us, 0)
    AND t.started_at < h.until_us AND (t.ended_at - t.started_at) // 1000 > 0 GROUP BY ALL;

-- And each reading; of very many those in which a step ends, each of which stands for one.
CREATE OR REPLACE TEMP TABLE profile_readings AS
SELECT h.sku, greatest((t.ended_at - t.started_at) // 1000, $step // 1000) AS ms,
    (1000 * utilization_ratio)::INTEGER AS utilization, (1000 * sm_active_ratio)::INTEGER AS sm,
    power_watts::INTEGER AS watts
FROM gpu_samples t JOIN profile_held h ON h.gpu_uuid = t.gpu_uuid AND h.hour = t.started_at // 3600000000 * 3600000000
WHERE t.started_at >= $start AND t.started_at < $end AND t.started_at >= coalesce(h.from_us, 0)
    AND t.started_at < h.until_us AND t.started_at // $step <> t.ended_at // $step;

-- Minutes, where the samples have expired.
INSERT INTO profile_hours BY NAME
SELECT h.sku, h.gpu_uuid, h.node, h.hour, any_value(h.ms) AS held_ms, sum(t.measured_ms)::BIGINT AS ms,
    max(memory_used_bytes_max)::BIGINT AS memory,
    sum(nvlink_transmit_bytes)::HUGEINT AS nvlink, sum(pcie_receive_bytes)::HUGEINT AS pcie, sum(t.measured_ms)
        FILTER (pcie_receive_bytes IS NOT NULL)::BIGINT AS pcie_ms
FROM gpu_minutes t JOIN profile_held h ON h.gpu_uuid = t.gpu_uuid AND h.hour = t.started_at // 3600000000 * 3600000000
WHERE t.started_at >= $start AND t.started_at < $end AND t.started_at >= coalesce(h.from_us, 0)
    AND t.started_at < h.until_us AND t.measured_ms > 0 GROUP BY ALL;

INSERT INTO profile_readings BY NAME
SELECT h.sku, t.measured_ms AS ms, (1000 * utilization_ratio)::INTEGER AS utilization,
    (1000 * sm_active_ratio)::INTEGER AS sm, power_watts::INTEGER AS watts
FROM gpu_minutes t JOIN profile_held h ON h.gpu_uuid = t.gpu_uuid AND h.hour = t.started_at // 3600000000 * 3600000000
WHERE t.started_at >= $start AND t.started_at < $end AND t.started_at >= coalesce(h.from_us, 0)
    AND t.started_at < h.until_us AND t.measured_ms > 0;

-- Hours, where the minutes have.
INSERT INTO profile_hours BY NAME
SELECT h.sku, h.gpu_uuid, h.node, h.hour, any_value(h.ms) AS held_ms, sum(t.measured_ms)::BIGINT AS ms,
    max(memory_used_bytes_max)::BIGINT AS memory,
    sum(nvlink_transmit_bytes)::HUGEINT AS nvlink, sum(pcie_receive_bytes)::HUGEINT AS pcie, sum(t.measured_ms)
        FILTER (pcie_receive_bytes IS NOT NULL)::BIGINT AS pcie_ms
FROM gpu_hours t JOIN profile_held h ON h.gpu_uuid = t.gpu_uuid AND h.hour = t.started_at // 3600000000 * 3600000000
WHERE t.started_at >= $start AND t.started_at < $end AND t.started_at >= coalesce(h.from_us, 0)
    AND t.started_at < h.until_us AND t.measured_ms > 0 GROUP BY ALL;

INSERT INTO profile_readings BY NAME
SELECT h.sku, t.measured_ms AS ms, (1000 * utilization_ratio)::INTEGER AS utilization,
    (1000 * sm_active_ratio)::INTEGER AS sm, power_watts::INTEGER AS watts
FROM gpu_hours t JOIN profile_held h ON h.gpu_uuid = t.gpu_uuid AND h.hour = t.started_at // 3600000000 * 3600000000
WHERE t.started_at >= $start AND t.started_at < $end AND t.started_at >= coalesce(h.from_us, 0)
    AND t.started_at < h.until_us AND t.measured_ms > 0
