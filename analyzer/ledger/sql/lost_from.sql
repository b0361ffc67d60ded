-- Where lost work begins: after the last checkpoint that the run named or that was seen, else with the attempt. Where
-- nothing could have shown a checkpoint, nobody knows what was lost: none is booked, and `unwatched` says so.
--
-- A save is whole when work follows it: one that reaches into the attempt's last minute was broken off. What a run
-- names is whole.
-- only with checkpoints|written_in|progress
CREATE OR REPLACE TEMP TABLE saved AS
WITH minutes AS (
    SELECT k.rid, c.minute // 60000000 AS minute, false AS is_small FROM checkpoints c JOIN run_keys k USING (run_id)
    WHERE k.rid IN (SELECT rid FROM failed)
    UNION ALL SELECT rid, minute_ms // 60000, is_small FROM written_in
), saves AS (
    SELECT rid, minute, bool_and(is_small) AS is_small,
        minute - row_number() OVER (PARTITION BY rid ORDER BY minute) AS save FROM minutes GROUP BY rid, minute
)
SELECT rid, (max(minute) + 1) * 60000 AS at_ms, 60000 AS rest_ms, bool_and(is_small) AS is_small
FROM saves GROUP BY rid, save
UNION ALL SELECT k.rid, p.ended_at // 1000, 0, false FROM progress p
JOIN run_names n ON n.run_id = p.run_id AND p.started_at >= n.from_us AND p.started_at < n.until_us
JOIN run_keys k USING (rid) WHERE p.checkpoint IS NOT NULL;

-- only with failed
CREATE OR REPLACE TEMP TABLE unwatched AS
SELECT k.run_id, f.rid, f.attempt, f.until_ms FROM failed f JOIN run_keys k USING (rid)
WHERE f.rid NOT IN (SELECT rid FROM watched) AND f.rid NOT IN (SELECT rid FROM saved);

-- It is sure where what was saved was of the size of a GPU's state, or where little was written on its hosts since.
-- only with failed
CREATE OR REPLACE TEMP TABLE lost AS
WITH begins AS (
    SELECT f.rid, f.attempt, f.lost_cause, f.until_ms, coalesce(s.at_ms, f.from_ms) AS lost_from_ms,
        coalesce(s.is_small, false) AS is_small
    FROM failed f LEFT JOIN LATERAL (SELECT max(at_ms) AS at_ms, arg_max(is_small, at_ms) AS is_small FROM saved s
        WHERE s.rid = f.rid AND s.at_ms >= f.from_ms AND s.at_ms + s.rest_ms <= f.until_ms) s ON true
    ANTI JOIN unwatched USING (rid, attempt) SEMI JOIN worked USING (rid, attempt)
)
SELECT b.rid, b.attempt, b.lost_cause, b.lost_from_ms,
    CASE WHEN b.is_small OR w.a_minute >= $steady_write_bytes THEN 'medium' ELSE 'high' END AS lost_confidence
FROM begins b LEFT JOIN LATERAL (SELECT quantile_disc(written, 0.5) AS a_minute FROM written_since w WHERE w.rid = b.rid
    AND w.minute_ms >= b.lost_from_ms AND w.minute_ms < b.until_ms) w ON true
