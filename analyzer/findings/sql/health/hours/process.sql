-- What the processes of each run did on each GPU in each hour: the driver's shares of SM time, where it told them.
CREATE OR REPLACE TEMP TABLE notice_process_hours (
    hour BIGINT, node VARCHAR, gpu_uuid VARCHAR, told_as VARCHAR, owner VARCHAR, ms BIGINT, memory_max BIGINT,
    cpu_ms BIGINT, shares_ms BIGINT, shares BIGINT
);

-- From the tier of hours.
INSERT INTO notice_process_hours BY NAME
SELECT started_at AS hour, node, gpu_uuid, run_id AS told_as, min(owner) AS owner, max(measured_ms) AS ms,
    sum(memory_used_bytes_max)::BIGINT AS memory_max,
    sum(round(1000 * cpu_seconds)::BIGINT)::BIGINT AS cpu_ms, max(sm_utilization_ratio_ms) AS shares_ms,
    sum(round(1e3 * sm_utilization_ratio * sm_utilization_ratio_ms)::BIGINT)::BIGINT AS shares
FROM process_hours WHERE started_at >= $start AND started_at < $end AND gpu_uuid IS NOT NULL GROUP BY ALL;

-- From samples.
INSERT INTO notice_process_hours BY NAME
SELECT hour, node, gpu_uuid, told_as, min(owner) AS owner, max(ms) AS ms, sum(memory_max)::BIGINT AS memory_max,
    sum(cpu_ms)::BIGINT AS cpu_ms, max(shares_ms) AS shares_ms, sum(shares)::BIGINT AS shares
FROM (
    SELECT started_at // 3600000000 * 3600000000 AS hour, node, gpu_uuid, run_id AS told_as, pid,
        arg_max(owner, started_at) FILTER (owner IS NOT NULL) AS owner,
        sum((ended_at - started_at) // 1000)::BIGINT AS ms, max(memory_used_bytes) AS memory_max,
        round(sum(round(1e6 * cpu_seconds)::BIGINT) / 1e3)::BIGINT AS cpu_ms,
        (sum(ended_at - started_at) FILTER (sm_utilization_ratio IS NOT NULL) // 1000)::BIGINT AS shares_ms,
        round(sum(round(1e6 * least(sm_utilization_ratio, 1))::BIGINT * ((ended_at - started_at) // 1000))
            / 1e3)::BIGINT AS shares
    FROM process_samples WHERE started_at >= $start AND started_at < $end AND gpu_uuid IS NOT NULL GROUP BY ALL)
GROUP BY ALL
