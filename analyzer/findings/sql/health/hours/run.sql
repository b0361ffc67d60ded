-- What the processes of each run did on each host in each hour: from its cgroup, or, where that tells less, from its
-- trees.
CREATE OR REPLACE TEMP TABLE notice_run_hours (
    hour BIGINT, node VARCHAR, told_as VARCHAR, ms BIGINT, cpu_ms BIGINT, memory_max BIGINT
);

-- From the tiers of hours.
INSERT INTO notice_run_hours BY NAME
SELECT started_at AS hour, node, run_id AS told_as, measured_ms AS ms, round(1000 * cpu_seconds)::BIGINT AS cpu_ms,
    memory_used_bytes_max AS memory_max
FROM run_hours WHERE started_at >= $start AND started_at < $end
UNION ALL BY NAME
SELECT started_at AS hour, node, run_id AS told_as, max(measured_ms) AS ms,
    sum(round(1000 * cpu_seconds)::BIGINT)::BIGINT AS cpu_ms
FROM process_hours WHERE started_at >= $start AND started_at < $end AND gpu_uuid IS NULL GROUP BY ALL;

-- From samples.
INSERT INTO notice_run_hours BY NAME
SELECT started_at // 3600000000 * 3600000000 AS hour, node, run_id AS told_as,
    sum((ended_at - started_at) // 1000)::BIGINT AS ms,
    round(sum(round(1e6 * cpu_seconds)::BIGINT) / 1e3)::BIGINT AS cpu_ms, max(memory_used_bytes) AS memory_max
FROM run_samples WHERE started_at >= $start AND started_at < $end GROUP BY ALL
UNION ALL BY NAME
SELECT hour, node, told_as, max(ms) AS ms, sum(cpu_ms)::BIGINT AS cpu_ms FROM (
    SELECT started_at // 3600000000 * 3600000000 AS hour, node, run_id AS told_as, pid,
        sum((ended_at - started_at) // 1000)::BIGINT AS ms,
        round(sum(round(1e6 * cpu_seconds)::BIGINT) / 1e3)::BIGINT AS cpu_ms
    FROM process_samples WHERE started_at >= $start AND started_at < $end AND gpu_uuid IS NULL GROUP BY ALL)
GROUP BY ALL
