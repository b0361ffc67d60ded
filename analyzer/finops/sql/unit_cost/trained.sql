-- Runs since $since that say what they do, but for $others: their size, what may tell their model and batch, and
-- whether they
-- were there in the period.
WITH speaking AS (
    SELECT DISTINCT run_id FROM progress_amounts
    WHERE hour >= $since // 3600000000 * 3600000000 AND hour < $end AND counted_from IS NOT NULL
)
SELECT r.run_id, r.name, r.gpus, r.sku, arg_max(a.labels, a.batch), coalesce(r.ended_at, $end) > $start
FROM runs r JOIN speaking s USING (run_id) LEFT JOIN allocations a ON a.run_id = r.run_id AND a.labels IS NOT NULL
WHERE r.started_at < $end AND NOT list_contains($others::VARCHAR[], coalesce(r.stage, ''))
GROUP BY r.run_id, r.name, r.gpus, r.sku, r.ended_at ORDER BY r.run_id;
