-- What the runs of each name did and cost, hour by hour, of names that say what they do, as it was booked. A run for
-- which
-- two hosts speak at once counts nothing: nobody knows whose count is the run's.
-- What was spent in hours whose amounts are not kept is left out too: it would make each unit dearer.
WITH said AS (
    SELECT * FROM progress_amounts WHERE hour >= $start AND hour < $end AND counted_from IS NOT NULL
), voices AS (
    SELECT run_id, node, min(counted_from) AS first_at, max(counted_until) AS last_at FROM said GROUP BY ALL
), chorus AS (
    SELECT run_id FROM voices
    QUALIFY first_at < lag(last_at) OVER (PARTITION BY run_id ORDER BY first_at, node)
), worked AS (
    SELECT run_id, hour, NULL::BIGINT AS requests, NULL::BIGINT AS tokens_out, NULL::BIGINT AS tokens_in,
        tokens, samples, steps
    FROM said WHERE run_id NOT IN (SELECT run_id FROM chorus)
    UNION ALL
    SELECT run_id, hour, requests, tokens_out, tokens_in, NULL, NULL, NULL
    FROM served_amounts WHERE hour >= $start AND hour < $end
), counted AS (
    SELECT coalesce(w.name, w.run_id) AS name, w.team, w.hour, sum(w.requests)::BIGINT AS requests,
        sum(w.tokens_out)::BIGINT AS tokens_out, sum(w.tokens_in)::BIGINT AS tokens_in,
        sum(w.tokens)::BIGINT AS tokens, sum(w.samples)::BIGINT AS samples,
        sum(w.steps)::BIGINT AS steps
    FROM {booked worked} w JOIN runs r ON r.run_id = w.run_id GROUP BY ALL
), speaking AS (
    SELECT name, team, bool_or(coalesce(requests, tokens_out, tokens_in) IS NOT NULL) AS serves
    FROM counted GROUP BY ALL
), cost AS (
    SELECT s.name, s.team, l.hour, sum(l.milliseconds)::BIGINT AS milliseconds,
        CASE WHEN count(*) = count(l.cost_micros) THEN sum(l.cost_micros)::BIGINT END AS micros
    FROM {booked ledger} l JOIN speaking s ON s.name = coalesce(l.name, l.run_id) AND s.team IS NOT DISTINCT FROM l.team
    JOIN amount_hours a ON a.hour = l.hour AND CASE WHEN s.serves THEN a.served ELSE a.progress END IS NOT NULL
    WHERE l.hour >= $start AND l.hour < $end GROUP BY ALL
)
SELECT k.name, k.team, k.hour, k.milliseconds, k.micros, c.requests, c.tokens_out, c.tokens_in, c.tokens, c.samples,
    c.steps
FROM cost k LEFT JOIN counted c ON c.name = k.name AND c.team IS NOT DISTINCT FROM k.team AND c.hour = k.hour
ORDER BY k.name, k.team, k.hour;
