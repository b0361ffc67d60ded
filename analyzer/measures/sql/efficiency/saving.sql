-- Whether any run wrote one or told of one: few sites know of checkpoints, and what follows takes long to plan.
SELECT 1 FROM checkpoints UNION ALL SELECT 1 FROM progress_amounts WHERE len(checkpoints) > 0 LIMIT 1;

-- The checkpoints of runs in [$start, $end) and what they cost: of one run where $run names it, else of all.
-- A run was restored where a later attempt worked that began after a checkpoint, or where a run that restarts it did.
WITH marks AS (
    SELECT run_id, minute AS at_us, false AS named FROM checkpoints
    UNION
    SELECT run_id, unnest(checkpoints), true FROM progress_amounts
), saved AS (
    SELECT run_id, min(at_us) AS first_at,
        list(at_us ORDER BY at_us) FILTER (NOT named AND at_us >= $start AND at_us < $end) AS seen,
        list(at_us ORDER BY at_us) FILTER (named AND at_us > $start AND at_us <= $end) AS named
    FROM marks WHERE $run::VARCHAR IS NULL OR run_id = $run GROUP BY run_id
), spent AS (
    SELECT run_id, sum(milliseconds) FILTER (state = 'checkpointing') AS saving_ms,
        CASE WHEN count(*) FILTER (cost_micros IS NULL) = 0 THEN sum(cost_micros)
            FILTER (state = 'checkpointing') END AS saving_micros,
        sum(milliseconds) AS held_ms, CASE WHEN count(*) FILTER (cost_micros IS NULL) = 0
            THEN sum(cost_micros) END AS held_micros
    FROM ledger WHERE hour >= $start AND hour < $end AND run_id IN (SELECT run_id FROM saved) GROUP BY run_id
), restored AS (
    SELECT s.run_id, max(g.first_active_at) AS at_us FROM saved s JOIN run_gpus g USING (run_id)
    WHERE g.attempt > 0 AND g.first_active_at > s.first_at GROUP BY ALL
    UNION ALL
    SELECT s.run_id, max(g.first_active_at) FROM saved s JOIN allocations a ON a.restarts_of = s.run_id
    JOIN run_gpus g ON g.run_id = a.run_id WHERE g.first_active_at > s.first_at GROUP BY ALL
)
SELECT s.run_id, r.name, r.team, r.gpus, r.nodes, coalesce(s.seen, []), coalesce(s.named, []),
    coalesce(p.saving_ms, 0)::BIGINT, coalesce(p.saving_micros, if(p.held_micros IS NULL, NULL, 0))::BIGINT,
        p.held_ms::BIGINT, p.held_micros::BIGINT,
    (SELECT max(at_us) FROM restored x WHERE x.run_id = s.run_id)
FROM saved s JOIN runs r USING (run_id) JOIN spent p USING (run_id)
WHERE (s.seen IS NOT NULL OR s.named IS NOT NULL)
    AND (r.stage IS NULL OR NOT list_contains($others::VARCHAR[], r.stage))
ORDER BY s.run_id
