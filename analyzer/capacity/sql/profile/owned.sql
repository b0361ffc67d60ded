-- What a team held of each kind, how much of it idle, and how much of it for these runs: GPU milliseconds.
SELECT l.sku, sum(milliseconds)::BIGINT, coalesce(sum(milliseconds) FILTER (state = 'held_idle'), 0)::BIGINT,
    coalesce(sum(milliseconds) FILTER (list_contains($runs::VARCHAR[], l.run_id)), 0)::BIGINT
FROM ledger l JOIN runs r USING (run_id)
WHERE hour >= $start AND hour < $end AND r.team = $team GROUP BY ALL ORDER BY 2 DESC, 1;

-- What the fleet owned, had free and had drained of each kind in each hour: GPU milliseconds.
SELECT sku, hour, sum(milliseconds)::BIGINT,
    coalesce(sum(milliseconds) FILTER (state = 'unallocated' AND cause = 'free'), 0)::BIGINT,
    coalesce(sum(milliseconds) FILTER (state = 'unallocated' AND cause = 'drained'), 0)::BIGINT
FROM ledger WHERE hour >= $start AND hour < $end GROUP BY ALL ORDER BY sku NULLS LAST, hour;

-- How many GPUs of each kind were owned, and the memory that such a one has.
SELECT l.sku, count(*), max(i.memory_bytes)::BIGINT
FROM (SELECT DISTINCT sku, gpu_uuid FROM ledger WHERE hour >= $start AND hour < $end) l
LEFT JOIN (SELECT gpu_uuid, max(memory_bytes) AS memory_bytes FROM inventory WHERE gpu_uuid IS NOT NULL GROUP BY ALL) i
    USING (gpu_uuid)
GROUP BY ALL ORDER BY 2 DESC, 1
