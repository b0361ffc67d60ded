-- The attempts of one run, by the last word on each of its allocations.
WITH latest AS (
    SELECT coalesce(attempt, 0) AS attempt, started_at, ended_at, exit_status, node, batch FROM allocations
    WHERE (run_id = $run OR run_id IN (SELECT alias_run_id FROM run_aliases WHERE run_id = $run))
        AND started_at IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY run_id, coalesce(attempt, 0), coalesce(gpu_uuid, node, member), started_at
        ORDER BY batch DESC, ended_at DESC NULLS LAST) = 1
), worked AS (
    SELECT attempt, max(first_active_at) AS worked_at FROM run_gpus WHERE run_id = $run GROUP BY ALL
)
SELECT l.attempt, min(l.started_at), max(w.worked_at), CASE WHEN count(*) FILTER (l.ended_at IS NULL) = 0
    THEN max(l.ended_at) END,
    arg_max(l.exit_status, l.batch), list(DISTINCT l.node ORDER BY l.node) FILTER (l.node IS NOT NULL)
FROM latest l LEFT JOIN worked w USING (attempt) GROUP BY l.attempt ORDER BY l.attempt
