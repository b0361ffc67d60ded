-- What these runs ($runs) said of their work on either side of $cut; hosts may know them by other names. Where two hosts
-- speak at once nobody knows whose count is the run's: then none counts.
WITH named AS (
    SELECT DISTINCT unnest($runs::VARCHAR[]) AS run_id, unnest($runs::VARCHAR[]) AS alias
    UNION SELECT run_id, alias_run_id FROM run_aliases WHERE list_contains($runs::VARCHAR[], run_id)
), voices AS (
    SELECT n.run_id, p.node, p.started_at >= $cut AS is_after, sum(p.tokens) AS tokens, sum(p.samples) AS samples,
        sum(p.steps) AS steps, min(p.started_at) AS first_at, max(p.ended_at) AS last_at
    FROM progress p JOIN named n ON n.alias = p.run_id
    WHERE p.started_at >= $from AND p.started_at < $until
        AND (p.steps IS NOT NULL OR p.samples IS NOT NULL OR p.tokens IS NOT NULL) GROUP BY ALL
), ordered AS (
    SELECT *, first_at < lag(last_at) OVER (PARTITION BY run_id ORDER BY first_at, node) AS is_late FROM voices
)
SELECT run_id, is_after, sum(tokens)::BIGINT, sum(samples)::BIGINT, sum(steps)::BIGINT FROM ordered
WHERE run_id NOT IN (SELECT run_id FROM ordered WHERE is_late) GROUP BY ALL ORDER BY ALL;
