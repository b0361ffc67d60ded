-- Spans in which a run's count of answered requests was read (a gap of a minute ends one), and those of them in which
-- it stood still: a restart (nothing is told of it) and every request end one.
WITH told AS (
    SELECT k.run_id, s.started_at // 1000 AS from_ms, s.ended_at // 1000 AS until_ms, s.requests
    FROM service_samples s JOIN run_names n ON n.run_id = s.run_id AND s.started_at >= n.from_us
        AND s.started_at < n.until_us
    JOIN run_keys k USING (rid) SEMI JOIN service_runs r ON r.rid = n.rid
    WHERE s.started_at < $until_us AND s.ended_at > $from_us AND s.ended_at > s.started_at
), both_kinds AS (
    SELECT *, kind = 'silent' AS is_silent, CASE kind WHEN 'silent' THEN requests IS NOT DISTINCT FROM 0
        ELSE requests IS NOT NULL END AS holds
    FROM told CROSS JOIN (SELECT unnest(['silent', 'read']) AS kind)
), marked AS (
    SELECT *, (NOT holds OR from_ms - max(until_ms) OVER earlier > $gap_ms)::BIGINT AS is_break
    FROM both_kinds WINDOW earlier AS (PARTITION BY run_id, is_silent ORDER BY from_ms, until_ms,
        requests ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), spans AS (
    SELECT *, sum(is_break) OVER (PARTITION BY run_id, is_silent ORDER BY from_ms, until_ms,
        requests ROWS UNBOUNDED PRECEDING) AS span FROM marked
)
SELECT run_id, is_silent, min(from_ms) AS from_ms, max(until_ms) AS until_ms FROM spans WHERE holds
GROUP BY run_id, is_silent, span HAVING max(until_ms) - min(from_ms) >= $abandoned_ms ORDER BY ALL;
