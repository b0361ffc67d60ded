-- The two newest hours of the ledger: how much of each is booked of the GPU that is known longest, and up to when.
SELECT hour, booked_ms, least(hour + 3600000000, greatest(hour + booked_ms * 1000, coalesce(known.until_us, 0)))
FROM (SELECT hour, max(ms)::BIGINT AS booked_ms FROM (
    SELECT hour, gpu_uuid, sum(milliseconds) AS ms FROM ledger
    WHERE hour >= (SELECT max(hour) FROM ledger_hours) - 3600000000 GROUP BY ALL) GROUP BY hour)
CROSS JOIN (SELECT max(until_us) AS until_us FROM analysed_until) known ORDER BY hour DESC;

-- Where an hour went by GPU, holder and state. $node is null where all count.
SELECT gpu_uuid, any_value(sku), run_id, state, cause, sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT,
    coalesce(sum(milliseconds) FILTER (cost_micros IS NULL), 0)::BIGINT
FROM ledger WHERE hour = $hour AND ($node IS NULL OR node = $node) GROUP BY ALL ORDER BY ALL;

-- What was measured of each GPU in its last minutes; a MIG instance counts as a part of its GPU.
SELECT coalesce(parent_uuid, gpu_uuid), avg(coalesce(sm_active_ratio, utilization_ratio)),
    max(memory_used_bytes)::BIGINT, avg(power_watts), max(temperature_celsius)
FROM gpu_samples WHERE started_at >= $since AND started_at < $until AND ($node IS NULL OR node = $node) GROUP BY ALL;

-- Each GPU's number on its host, and its memory.
SELECT gpu_uuid, arg_max(gpu_index, started_at), max(memory_bytes)::BIGINT
FROM inventory WHERE gpu_uuid IS NOT NULL AND ($node IS NULL OR node = $node) GROUP BY gpu_uuid;

-- Whose runs these are.
SELECT run_id, name, team FROM runs WHERE list_contains($runs::VARCHAR[], run_id);

-- How the last stretches of these runs went, ten minutes each, of what was measured. $useful lists the states of that
-- class.
SELECT run_id, bucket_start,
    coalesce(sum(milliseconds) FILTER (list_contains($useful::VARCHAR[], state || '/' || coalesce(cause, ''))),
    0)::BIGINT,
    coalesce(sum(milliseconds) FILTER (state <> 'unobserved'), 0)::BIGINT
FROM run_timeline WHERE bucket_start >= $since AND bucket_start < $until AND list_contains($runs::VARCHAR[], run_id)
    GROUP BY ALL
