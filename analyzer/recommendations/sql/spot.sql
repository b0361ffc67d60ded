-- What the fleet's own spot hosts do: how often attempts were taken off them, and for how long hosts of each kind were
-- held.
WITH spot AS (
    SELECT DISTINCT node, sku FROM ledger WHERE hour >= $start AND hour < $end AND purchase_option = 'spot'
), latest AS (
    SELECT run_id, coalesce(attempt, 0) AS attempt, node, min(started_at) AS started_at, max(ended_at) AS ended_at,
        arg_max(exit_status, batch) AS exit_status
    FROM allocations WHERE started_at < $end AND coalesce(ended_at, $end) > $start AND node IS NOT NULL GROUP BY ALL
)
SELECT s.sku, count(DISTINCT (l.run_id, l.attempt)) FILTER (l.exit_status IN ('preempted', 'node_failed')) AS taken,
    sum(least(coalesce(l.ended_at, $end), $end) - greatest(l.started_at, $start))::BIGINT AS node_us
FROM latest l JOIN spot s USING (node) GROUP BY s.sku ORDER BY s.sku
