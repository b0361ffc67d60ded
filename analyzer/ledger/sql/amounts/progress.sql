-- What runs said of themselves, host by host, by the hour in which each interval began.
-- only with progress
CREATE OR REPLACE TEMP TABLE progress_new AS
WITH told AS (
    SELECT p.started_at // 3600000000 * 3600000000 AS hour, coalesce(k.run_id, p.run_id) AS run_id, p.node,
        p.started_at, p.ended_at,
        p.steps, p.samples, p.tokens, p.checkpoint, coalesce(p.steps, p.samples, p.tokens) IS NOT NULL AS is_count
    FROM progress p LEFT JOIN amount_names k ON k.alias = p.run_id AND p.started_at >= k.from_us
        AND p.started_at < k.until_us
    WHERE p.started_at >= $from_us AND p.started_at < $until_us
), ordered AS (
    SELECT *, max(ended_at) FILTER (is_count) OVER (PARTITION BY hour, run_id, node) AS counted_until FROM told
)
SELECT hour, run_id, node, amount(sum(steps)) AS steps, amount(sum(samples)) AS samples, amount(sum(tokens)) AS tokens,
    min(started_at) AS first_at, amount(sum(ended_at - started_at)) AS told_us, min(started_at)
        FILTER (is_count) AS counted_from,
    any_value(counted_until) AS counted_until,
        amount(sum(ended_at - started_at) FILTER (ended_at <= counted_until)) AS counted_us,
    list(ended_at ORDER BY ended_at) FILTER (checkpoint IS NOT NULL) AS checkpoints
FROM ordered GROUP BY hour, run_id, node HAVING told_us IS NOT NULL
