-- Runs since $since that say what they do, but for $others: their size, what may tell their model and batch, and whether they
-- were there in the period. Hosts may know a run by another name.
WITH named AS (
    SELECT alias_run_id AS alias, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY ALL
), speaking AS (
    SELECT DISTINCT coalesce(n.run_id, p.run_id) AS run_id FROM progress p LEFT JOIN named n ON n.alias = p.run_id
    WHERE p.started_at >= $since AND p.started_at < $end AND coalesce(p.tokens, p.samples, p.steps) IS NOT NULL
)
SELECT r.run_id, r.name, r.gpus, r.sku, arg_max(a.labels, a.batch), coalesce(r.ended_at, $end) > $start
FROM runs r JOIN speaking s USING (run_id) LEFT JOIN allocations a ON a.run_id = r.run_id AND a.labels IS NOT NULL
WHERE r.started_at < $end AND NOT list_contains($others::VARCHAR[], coalesce(r.stage, ''))
GROUP BY r.run_id, r.name, r.gpus, r.sku, r.ended_at ORDER BY r.run_id;
