-- What runs said of themselves, in all, as it was booked: $runs are their ids.
-- Where one host speaks after another the run was moved; where two speak at once nobody knows whose count is the run's.
-- Working time: that between the first word and the last, times the share of the run's measured time near it in which
-- steps can be made ($stepping). Lost work was made too.
WITH said AS (
    SELECT *, max(counted_until) OVER (PARTITION BY run_id, node) AS last_at
    FROM progress_amounts WHERE list_contains($runs::VARCHAR[], run_id)
), voices AS (
    SELECT run_id, node, sum(steps) AS steps, sum(samples) AS samples, sum(tokens) AS tokens, min(first_at) AS first_at,
        any_value(last_at) AS last_at,
        sum(CASE WHEN counted_until = last_at THEN counted_us WHEN first_at < last_at THEN told_us END) AS told_us
    FROM said WHERE last_at IS NOT NULL GROUP BY ALL
), ordered AS (
    SELECT *, first_at < lag(last_at) OVER (PARTITION BY run_id ORDER BY first_at, node) AS is_late FROM voices
), told AS (
    SELECT run_id, sum(steps)::BIGINT AS steps, sum(samples)::BIGINT AS samples, sum(tokens)::BIGINT AS tokens,
        sum(told_us)::BIGINT AS told_us,
        min(first_at) AS first_at, max(last_at) AS last_at, coalesce(bool_or(is_late), false) AS is_chorus
    FROM ordered GROUP BY ALL
), shares AS (
    SELECT t.run_id, sum(l.milliseconds) FILTER (list_contains($stepping::VARCHAR[], l.state)) AS stepping_ms,
        sum(l.milliseconds) FILTER (l.state <> 'unobserved') AS measured_ms
    FROM told t JOIN run_timeline l ON l.run_id = t.run_id
        AND l.bucket_start >= t.first_at // $bucket_us * $bucket_us AND l.bucket_start < t.last_at
    GROUP BY ALL
)
SELECT t.run_id, t.steps, t.samples, t.tokens,
    (t.told_us::HUGEINT * s.stepping_ms // nullif(s.measured_ms, 0))::BIGINT AS working_us, t.is_chorus
FROM told t LEFT JOIN shares s USING (run_id) ORDER BY t.run_id
