-- The newest hours of the ledger, newest first, and how much of each is booked: that of its best known GPU.
SELECT hour, max(ms)::BIGINT FROM (
    SELECT hour, gpu_uuid, sum(milliseconds) AS ms FROM ledger
    WHERE hour > (SELECT max(hour) FROM ledger_hours) - 7200000000 GROUP BY ALL)
GROUP BY hour ORDER BY hour DESC;

-- Where an hour went by GPU, holder and state. $node is null where all count.
SELECT node, gpu_uuid, any_value(sku), run_id, state, cause, sum(milliseconds)::BIGINT,
    CASE WHEN count(*) = count(cost_micros) THEN sum(cost_micros)::BIGINT END
FROM ledger WHERE hour = $hour AND ($node IS NULL OR node = $node) GROUP BY ALL ORDER BY ALL;

-- What was measured of each GPU in its last minutes; what is not reported is null. A MIG instance counts as its GPU.
SELECT coalesce(parent_uuid, gpu_uuid) AS gpu, avg(coalesce(sm_active_ratio, utilization_ratio)), bool_or(sm_active_ratio IS NOT NULL),
    arg_max(memory_used_bytes, ended_at), avg(power_watts), max(temperature_celsius)
FROM gpu_samples WHERE started_at >= $since AND started_at < $until AND ($node IS NULL OR node = $node) GROUP BY 1;

-- What is known of each GPU: its number on its host, and its memory.
SELECT gpu_uuid, arg_max(gpu_index, started_at), max(memory_bytes)::BIGINT
FROM inventory WHERE gpu_uuid IS NOT NULL AND ($node IS NULL OR node = $node) GROUP BY gpu_uuid;

-- Who the holders are.
SELECT run_id, name, team FROM runs WHERE list_contains($runs::VARCHAR[], run_id);

-- How each run's last stretches went, ten minutes each.
SELECT run_id, bucket_start, state, cause, sum(milliseconds)::BIGINT FROM run_timeline
WHERE bucket_start >= $since AND bucket_start < $until AND list_contains($runs::VARCHAR[], run_id) GROUP BY ALL ORDER BY ALL
