-- Whether a scheduler tells of waiting at all.
SELECT count(*) > 0 FROM allocations
WHERE submitted_at IS NOT NULL AND coalesce(scheduler, split_part(run_id, '/', 1)) NOT IN ('process', 'declared',
    'cgroup');

-- Runs that waited for an hour or more within the period: from when they were asked for until they began, gave up, or
-- it
-- ended. How many hosts they took, and of which kind, is known of those that began.
WITH told AS (
    SELECT * FROM allocations WHERE submitted_at IS NOT NULL AND submitted_at < $end
        AND coalesce(scheduler, split_part(run_id, '/', 1)) NOT IN ('process', 'declared', 'cgroup')
            AND coalesce(gpu_fraction, 1) > 0
), attempts AS (
    SELECT run_id, coalesce(attempt, 0) AS attempt, min(submitted_at) AS submitted_at, min(started_at) AS started_at,
        max(ended_at) FILTER (started_at IS NULL) AS given_up_at, max(requested_gpus) AS gpus,
        arg_max(pending_reason, batch) FILTER (pending_reason IS NOT NULL) AS reason, any_value(name) AS name,
        any_value(queue) AS queue, count(DISTINCT node) AS nodes, count(DISTINCT gpu_uuid) AS held
    FROM told GROUP BY ALL
), waits AS (
    SELECT *, greatest(submitted_at, $start) AS from_us,
        least(coalesce(started_at, given_up_at, $end), $end) AS until_us FROM attempts
)
SELECT w.run_id, w.name, coalesce(w.queue, '') AS queue, coalesce(nullif(w.held, 0), w.gpus) AS gpus, w.nodes, r.sku,
    w.reason, w.from_us, w.until_us
FROM waits w LEFT JOIN runs r ON r.run_id = w.run_id
WHERE w.until_us - w.from_us >= $wait_us AND coalesce(nullif(w.held, 0), w.gpus) > 0
    AND NOT EXISTS (SELECT 1 FROM told t WHERE w.started_at IS NULL AND starts_with(t.run_id, w.run_id || '_'))
ORDER BY queue, w.from_us, w.run_id, w.attempt;

-- GPUs that nobody held for a whole hour, by host: free to take, and kept back by a reservation or a drain.
WITH whole AS (
    SELECT hour, node, gpu_uuid, any_value(sku) AS sku, any_value(cause) AS cause FROM ledger
    WHERE hour >= $start AND hour < $end AND state = 'unallocated' AND milliseconds >= 3590000 GROUP BY ALL
)
SELECT hour, node, min(sku) AS sku, count(*) FILTER (cause = 'free') AS free,
    count(*) FILTER (cause IN ('drained', 'reserved_unused')) AS kept
FROM whole WHERE cause IN ('free', 'drained', 'reserved_unused') GROUP BY hour, node ORDER BY hour, node;

-- Which hosts each queue has used, and how many GPUs a host has.
SELECT DISTINCT coalesce(r.queue, '') AS queue, h.node FROM notice_holds h JOIN runs r USING (run_id) ORDER BY ALL;

SELECT max(gpus) FROM (SELECT count(DISTINCT gpu_uuid) AS gpus FROM ledger WHERE hour >= $start AND hour < $end
    GROUP BY node)
