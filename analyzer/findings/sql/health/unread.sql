-- How long the metrics of each service that a host's settings name were not read, or not wholly, and why for most of
-- that time. No amount: samples that are kept are asked.
WITH told AS (
    SELECT coalesce(r.name, s.run_id) AS service, r.team, coalesce(r.run_id, s.run_id) AS run_id, s.state,
        (s.ended_at - s.started_at) // 1000 AS ms
    FROM service_samples s LEFT JOIN runs r ON r.run_id = s.run_id
    WHERE s.started_at >= $start AND s.started_at < $end AND s.ended_at > s.started_at AND s.state IS NOT NULL
), by_state AS (
    SELECT service, team, state, list(DISTINCT run_id) AS run_ids, sum(ms)::BIGINT AS ms FROM told GROUP BY ALL
)
SELECT service, team, list_sort(list_distinct(flatten(list(run_ids) FILTER (state <> 'read')))) AS run_ids,
    sum(ms)::BIGINT AS told_ms, sum(ms) FILTER (state <> 'read')::BIGINT AS unread_ms,
    arg_max(state, (ms, state)) FILTER (state <> 'read') AS state
FROM by_state GROUP BY service, team HAVING unread_ms >= $unread_ms ORDER BY service, team;
