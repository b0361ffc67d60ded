-- What the runs of each name did and cost, hour by hour, of names that say what they do. Hosts may know a run by another
-- name. A run for which two hosts speak at once counts nothing: nobody knows whose count is the run's.
WITH named AS (
    SELECT alias_run_id AS alias, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY ALL
), said AS (
    SELECT coalesce(n.run_id, p.run_id) AS run_id, p.node, p.started_at // 3600000000 * 3600000000 AS hour,
        p.started_at, p.ended_at, p.tokens, p.samples, p.steps
    FROM progress p LEFT JOIN named n ON n.alias = p.run_id
    WHERE p.started_at >= $start AND p.started_at < $end AND coalesce(p.tokens, p.samples, p.steps) IS NOT NULL
), voices AS (
    SELECT run_id, node, min(started_at) AS first_at, max(ended_at) AS last_at FROM said GROUP BY ALL
), chorus AS (
    SELECT run_id FROM voices
    QUALIFY first_at < lag(last_at) OVER (PARTITION BY run_id ORDER BY first_at, node)
), worked AS (
    SELECT run_id, hour, NULL::BIGINT AS requests, NULL::BIGINT AS tokens_out, sum(tokens)::BIGINT AS tokens,
        sum(samples)::BIGINT AS samples, sum(steps)::BIGINT AS steps
    FROM said WHERE run_id NOT IN (SELECT run_id FROM chorus) GROUP BY ALL
    UNION ALL
    SELECT coalesce(n.run_id, s.run_id), s.started_at // 3600000000 * 3600000000, sum(s.requests)::BIGINT,
        sum(s.tokens_out)::BIGINT, NULL, NULL, NULL
    FROM service_samples s LEFT JOIN named n ON n.alias = s.run_id
    WHERE s.started_at >= $start AND s.started_at < $end GROUP BY ALL
), counted AS (
    SELECT coalesce(r.name, r.run_id) AS name, r.team, w.hour, sum(w.requests)::BIGINT AS requests,
        sum(w.tokens_out)::BIGINT AS tokens_out, sum(w.tokens)::BIGINT AS tokens, sum(w.samples)::BIGINT AS samples,
        sum(w.steps)::BIGINT AS steps
    FROM worked w JOIN runs r ON r.run_id = w.run_id GROUP BY ALL
), speaking AS (
    SELECT DISTINCT r.run_id, coalesce(r.name, r.run_id) AS name, r.team
    FROM runs r JOIN (SELECT DISTINCT name, team FROM counted) c
        ON c.name = coalesce(r.name, r.run_id) AND c.team IS NOT DISTINCT FROM r.team
), cost AS (
    SELECT s.name, s.team, l.hour, sum(l.milliseconds)::BIGINT AS milliseconds,
        CASE WHEN count(*) = count(l.cost_micros) THEN sum(l.cost_micros)::BIGINT END AS micros
    FROM ledger l JOIN speaking s ON s.run_id = l.run_id WHERE l.hour >= $start AND l.hour < $end GROUP BY ALL
)
SELECT k.name, k.team, k.hour, k.milliseconds, k.micros, c.requests, c.tokens_out, c.tokens, c.samples, c.steps
FROM cost k LEFT JOIN counted c ON c.name = k.name AND c.team IS NOT DISTINCT FROM k.team AND c.hour = k.hour
ORDER BY k.name, k.team, k.hour;
