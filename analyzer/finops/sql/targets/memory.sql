-- What GPUs each run held, for how long, and how much memory they have.
SELECT l.run_id, l.gpu_uuid, sum(l.milliseconds)::BIGINT, any_value(b.bytes) FROM ledger l JOIN (
    SELECT gpu_uuid, arg_max(memory_bytes, started_at) AS bytes FROM inventory
    WHERE gpu_uuid IS NOT NULL AND parent_uuid IS NULL AND memory_bytes IS NOT NULL GROUP BY gpu_uuid
) b ON b.gpu_uuid = l.gpu_uuid
WHERE l.hour >= $start AND l.hour < $end AND l.run_id IS NOT NULL GROUP BY ALL;

-- The most memory that was in use on each in hours that are rolled up: a gauge, which says what was set aside.
WITH held AS (
    SELECT DISTINCT run_id, gpu_uuid, hour FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL
)
SELECT h.run_id, h.gpu_uuid, max(s.memory_used_bytes_max) FROM held h
JOIN gpu_hours s ON s.gpu_uuid = h.gpu_uuid AND s.started_at = h.hour AND s.parent_uuid IS NULL
GROUP BY ALL HAVING max(s.memory_used_bytes_max) IS NOT NULL;

-- And in samples after them.
WITH held AS (
    SELECT DISTINCT run_id, gpu_uuid, hour FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL
), seen AS (
    SELECT gpu_uuid, started_at // 3600000000 * 3600000000 AS hour, max(memory_used_bytes) AS bytes FROM gpu_samples
    WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL GROUP BY ALL
)
SELECT run_id, gpu_uuid, max(bytes) FROM held JOIN seen USING (gpu_uuid, hour)
GROUP BY ALL HAVING max(bytes) IS NOT NULL;
