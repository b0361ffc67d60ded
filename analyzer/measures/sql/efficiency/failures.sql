-- What ended attempts of training in [$start, $end): failures of attempts that had lived for $lived_us, the time for
-- which
-- runs held hosts, and the hosts that their scheduler called down when an attempt ended for it.
WITH latest AS (
    SELECT run_id, coalesce(attempt, 0) AS attempt, started_at, ended_at, exit_status, node, batch FROM allocations
    WHERE started_at < $end AND (ended_at IS NULL OR ended_at > $start) AND node IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY run_id, coalesce(attempt, 0), coalesce(gpu_uuid, node), started_at
        ORDER BY batch DESC, ended_at DESC NULLS LAST) = 1
), attempts AS (
    SELECT l.run_id, l.attempt, min(l.started_at) AS started_at, CASE WHEN count(*) FILTER (l.ended_at IS NULL) = 0
        THEN max(l.ended_at) END AS ended_at,
        arg_max(l.exit_status, l.batch) AS exit_status, list(DISTINCT l.node) AS nodes
    FROM latest l JOIN runs r USING (run_id)
    WHERE r.stage IS NULL OR NOT list_contains($others::VARCHAR[], r.stage)
    GROUP BY ALL
), fallen AS (
    SELECT * FROM attempts WHERE ended_at >= $start AND ended_at < $end AND ended_at - started_at >= $lived_us
        AND exit_status IN ('failed', 'node_failed')
), down AS (
    SELECT n.node, count(DISTINCT (n.run_id, n.attempt)) AS times
    FROM (SELECT run_id, attempt, ended_at, unnest(nodes) AS node FROM fallen WHERE exit_status = 'node_failed') n
    WHERE EXISTS (SELECT 1 FROM node_states s WHERE s.node = n.node AND s.state = 'down'
        AND s.started_at < n.ended_at + $around_us AND s.ended_at > n.ended_at - $around_us)
    GROUP BY n.node HAVING times >= $times
)
SELECT (SELECT count(*) FROM fallen),
    (SELECT coalesce(sum((least(coalesce(ended_at, $end), $end) - greatest(started_at, $start)) * len(nodes)),
        0)::BIGINT FROM attempts
        WHERE started_at < $end AND coalesce(ended_at, $end) > $start),
    (SELECT list(struct_pack(node := node, times := times) ORDER BY times DESC, node) FROM down)
