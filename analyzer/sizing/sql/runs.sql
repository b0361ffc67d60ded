-- Whole runs that ended, with what they cost; services count as they are. Of a run with unpriced time the cost is
-- unknown.
WITH ended AS (
    SELECT run_id, name, model, stage, sku, gpus, started_at, ended_at FROM runs
    WHERE gpus > 0 AND sku IS NOT NULL AND (stage = 'serving' OR exit_status = 'completed')
        AND coalesce(ended_at, $end) > $start AND started_at < $end
)
SELECT e.run_id, e.name, e.model, e.stage, e.sku, e.gpus, (coalesce(e.ended_at, $end) - e.started_at) // 1000000,
    CASE WHEN count(*) = count(l.cost_micros) THEN sum(l.cost_micros)::BIGINT END, e.ended_at IS NULL
FROM ended e JOIN ledger l USING (run_id) GROUP BY ALL ORDER BY e.run_id
