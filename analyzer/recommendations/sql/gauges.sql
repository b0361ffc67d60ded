-- The most memory that was in use on one GPU of each run: a gauge, which says what was set aside. From hours, which are
-- not there where nobody rolls up, and from samples after them.
WITH held AS (
    SELECT DISTINCT run_id, gpu_uuid, hour FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL
), seen AS (
    SELECT gpu_uuid, started_at AS hour, memory_used_bytes_max AS bytes FROM gpu_hours
    WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL
)
SELECT run_id, max(bytes) FROM held JOIN seen USING (gpu_uuid, hour) GROUP BY run_id HAVING max(bytes) IS NOT NULL;

WITH held AS (
    SELECT DISTINCT run_id, gpu_uuid, hour FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL
), seen AS (
    SELECT gpu_uuid, started_at // 3600000000 * 3600000000 AS hour, max(memory_used_bytes) AS bytes FROM gpu_samples
    WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL GROUP BY ALL
)
SELECT run_id, max(bytes) FROM held JOIN seen USING (gpu_uuid, hour) GROUP BY run_id HAVING max(bytes) IS NOT NULL;

-- And on one of its hosts, by its cgroup.
WITH names AS (SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id)
SELECT coalesce(n.run_id, s.run_id) AS run, max(memory_used_bytes_max) FROM run_hours s LEFT
    JOIN names n ON n.alias_run_id = s.run_id
WHERE started_at >= $start AND started_at < $end GROUP BY run HAVING max(memory_used_bytes_max) IS NOT NULL;

WITH names AS (SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id)
SELECT coalesce(n.run_id, s.run_id) AS run, max(memory_used_bytes) FROM run_samples s LEFT
    JOIN names n ON n.alias_run_id = s.run_id
WHERE started_at >= $start AND started_at < $end GROUP BY run HAVING max(memory_used_bytes) IS NOT NULL
