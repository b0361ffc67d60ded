-- What these runs ($runs) said of their work on either side of $cut (a whole hour), as it was booked. Where two hosts
-- speak at once nobody knows whose count is the run's: then none counts.
WITH voices AS (
    SELECT run_id, node, hour >= $cut AS is_after, sum(tokens) AS tokens, sum(samples) AS samples,
        sum(steps) AS steps, min(counted_from) AS first_at, max(counted_until) AS last_at
    FROM progress_amounts
    WHERE list_contains($runs::VARCHAR[], run_id) AND hour >= $from // 3600000000 * 3600000000 AND hour < $until
        AND counted_from IS NOT NULL GROUP BY ALL
), ordered AS (
    SELECT *, first_at < lag(last_at) OVER (PARTITION BY run_id ORDER BY first_at, node) AS is_late FROM voices
)
SELECT run_id, is_after, sum(tokens)::BIGINT, sum(samples)::BIGINT, sum(steps)::BIGINT FROM ordered
WHERE run_id NOT IN (SELECT run_id FROM ordered WHERE is_late) GROUP BY ALL ORDER BY ALL;
