-- Which GPU the runs held in which hour, how much of it, and between which moments they were there.
CREATE OR REPLACE TEMP TABLE profile_held AS
SELECT l.hour, l.gpu_uuid, l.sku, sum(l.milliseconds)::BIGINT AS ms, min(r.started_at) AS from_us, max(coalesce(r.ended_at, $end)) AS until_us
FROM ledger l LEFT JOIN runs r USING (run_id)
WHERE l.hour >= $start AND l.hour < $end AND list_contains($runs::VARCHAR[], l.run_id) GROUP BY ALL;

-- What was read of these GPUs meanwhile, in whole numbers.
CREATE OR REPLACE TEMP TABLE profile_samples AS
SELECT h.sku, h.hour, h.gpu_uuid, h.ms AS held_ms, (t.ended_at - t.started_at) // 1000 AS ms, (1000 * utilization_ratio)::INTEGER AS utilization, (1000 * sm_active_ratio)::INTEGER AS sm,
    power_watts::INTEGER AS watts, memory_used_bytes AS memory, (1000 * energy_joules)::BIGINT AS millijoules,
    nvlink_transmit_bytes AS nvlink, pcie_receive_bytes AS pcie
FROM gpu_samples t JOIN profile_held h ON h.gpu_uuid = t.gpu_uuid AND h.hour = t.started_at // 3600000000 * 3600000000
WHERE t.started_at >= $start AND t.started_at < $end AND t.started_at >= coalesce(h.from_us, 0) AND t.started_at < h.until_us AND t.ended_at >= t.started_at + 1000;

-- Minutes, where the samples have expired.
INSERT INTO profile_samples BY NAME
SELECT h.sku, h.hour, h.gpu_uuid, h.ms AS held_ms, t.measured_ms AS ms, (1000 * utilization_ratio)::INTEGER AS utilization, (1000 * sm_active_ratio)::INTEGER AS sm,
    power_watts::INTEGER AS watts, memory_used_bytes_max AS memory, (1000 * energy_joules)::BIGINT AS millijoules,
    nvlink_transmit_bytes AS nvlink, pcie_receive_bytes AS pcie
FROM gpu_minutes t JOIN profile_held h ON h.gpu_uuid = t.gpu_uuid AND h.hour = t.started_at // 3600000000 * 3600000000
WHERE t.started_at >= $start AND t.started_at < $end AND t.started_at >= coalesce(h.from_us, 0) AND t.started_at < h.until_us AND t.measured_ms > 0;

-- Hours, where the minutes have.
INSERT INTO profile_samples BY NAME
SELECT h.sku, h.hour, h.gpu_uuid, h.ms AS held_ms, t.measured_ms AS ms, (1000 * utilization_ratio)::INTEGER AS utilization, (1000 * sm_active_ratio)::INTEGER AS sm,
    power_watts::INTEGER AS watts, memory_used_bytes_max AS memory, (1000 * energy_joules)::BIGINT AS millijoules,
    nvlink_transmit_bytes AS nvlink, pcie_receive_bytes AS pcie
FROM gpu_hours t JOIN profile_held h ON h.gpu_uuid = t.gpu_uuid AND h.hour = t.started_at // 3600000000 * 3600000000
WHERE t.started_at >= $start AND t.started_at < $end AND t.started_at >= coalesce(h.from_us, 0) AND t.started_at < h.until_us AND t.measured_ms > 0
