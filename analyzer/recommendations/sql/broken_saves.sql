-- Whether any work was lost: what follows takes long to plan.
SELECT 1 FROM ledger WHERE hour >= $start AND hour < $end AND state = 'lost_work' LIMIT 1;

-- Runs of which half of the failed attempts or more ended in the middle of a save, as the ledger takes it: one that
-- reaches into the attempt's last minute was broken off, be it seen by a dip or by what the run itself wrote in a burst
-- (ledger/lost_from.sql, ledger/watched.sql).
WITH names AS (SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id),
ends AS (
    SELECT coalesce(n.run_id, a.run_id) AS run_id, coalesce(attempt, 0) AS attempt, max(ended_at) AS ended_at
    FROM allocations a LEFT JOIN names n ON n.alias_run_id = a.run_id
    WHERE ended_at IS NOT NULL AND exit_status <> 'completed' GROUP BY ALL
    HAVING coalesce(n.run_id, a.run_id) IN (
        SELECT run_id FROM ledger WHERE hour >= $start AND hour < $end AND state = 'lost_work')
), written AS (
    SELECT e.run_id, e.attempt, e.ended_at, s.started_at // 60000000 * 60000000 AS minute,
        sum(s.written_bytes) AS written
    FROM run_samples s LEFT JOIN names n ON n.alias_run_id = s.run_id
    JOIN ends e ON e.run_id = coalesce(n.run_id, s.run_id) AND s.started_at >= e.ended_at - 3600000000
        AND s.started_at < e.ended_at
    WHERE s.started_at >= $start - 3600000000 AND s.started_at < $end GROUP BY ALL
), bursts AS (
    SELECT run_id, attempt, ended_at, minute FROM written
    QUALIFY written >= $small_state_bytes
        AND written >= 3 * quantile_disc(written, 0.25) OVER (PARTITION BY run_id, attempt)
    UNION ALL
    SELECT e.run_id, e.attempt, e.ended_at, c.minute FROM ends e JOIN checkpoints c USING (run_id)
), broken AS (
    SELECT DISTINCT run_id, attempt FROM bursts WHERE minute <= ended_at AND minute + 120000000 > ended_at
)
SELECT run_id FROM ends LEFT JOIN broken b USING (run_id, attempt)
GROUP BY run_id HAVING 2 * count(b.attempt) >= count(*)
