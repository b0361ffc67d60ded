-- How the attempts ended of which work is booked as lost by $cause, and for how long before that nothing was saved.
-- $endings are the
-- words of schedulers for it. Of several attempts it is that which lost most.
WITH claimed AS (
    SELECT run_id, attempt, max(ms)::BIGINT AS lost_ms, min(first) AS first_hour, max(last) AS last_hour FROM (
        SELECT run_id, attempt, gpu_uuid, sum(milliseconds) AS ms, min(hour) AS first, max(hour) AS last FROM ledger
        WHERE hour >= $start AND hour < $end AND state = 'lost_work' AND cause = $cause
            AND run_id IN (SELECT unnest($runs::VARCHAR[])) GROUP BY ALL
    ) GROUP BY ALL
), told AS (
    SELECT coalesce(n.run_id, a.run_id) AS run_id, a.started_at, a.ended_at, a.exit_status
    FROM allocations a LEFT JOIN (SELECT DISTINCT alias_run_id, run_id FROM run_aliases) n ON n.alias_run_id = a.run_id
    WHERE coalesce(n.run_id, a.run_id) IN (SELECT unnest($runs::VARCHAR[]))
), ended AS (
    -- An attempt ends in the last hour that it lost; schedulers without attempts have no other mark of it.
    SELECT c.run_id, c.attempt, c.lost_ms, min(t.started_at) AS began_at, max(t.ended_at) AS ended_at,
        coalesce(bool_or(list_contains($endings::VARCHAR[], t.exit_status)), false) AS is_so
    FROM claimed c LEFT JOIN told t ON t.run_id = c.run_id AND t.ended_at > c.first_hour
        AND t.ended_at <= c.last_hour + 3600000000 GROUP BY ALL
), saved AS (
    SELECT run_id, minute + 60000000 AS at_us FROM checkpoints
    UNION ALL SELECT run_id, unnest(checkpoints) FROM progress_amounts
), gone AS (
    SELECT e.*, (SELECT max(s.at_us) FROM saved s WHERE s.run_id = e.run_id
        AND s.at_us BETWEEN e.began_at AND e.ended_at) AS saved_at FROM ended e
)
SELECT count(*), count(*) FILTER (is_so), coalesce(max(lost_ms), 0)::BIGINT,
    arg_max((ended_at - coalesce(saved_at, began_at)) // 1000, lost_ms)::BIGINT,
        coalesce(arg_max(saved_at IS NOT NULL, lost_ms), false)
FROM gone
