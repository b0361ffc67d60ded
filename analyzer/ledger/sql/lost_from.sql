-- Where lost work begins: after the last checkpoint that the run named or that was seen, else with the attempt. Where
-- nothing
-- could have shown a checkpoint, nobody knows what was lost: none is booked, and `unwatched` says so.
CREATE OR REPLACE TEMP TABLE saved AS
SELECT run_id, minute + 60000000 AS at_us FROM checkpoints
UNION ALL SELECT k.run_id, (w.minute_ms + 60000) * 1000 FROM written_in w JOIN run_keys k USING (rid)
UNION ALL SELECT k.run_id, p.ended_at FROM progress p
JOIN run_names n ON n.run_id = p.run_id AND p.started_at >= n.from_us AND p.started_at < n.until_us
JOIN run_keys k USING (rid) WHERE p.checkpoint IS NOT NULL;

CREATE OR REPLACE TEMP TABLE unwatched AS
SELECT k.run_id, f.rid, f.attempt, f.until_ms FROM failed f JOIN run_keys k USING (rid)
WHERE f.rid NOT IN (SELECT rid FROM watched) AND k.run_id NOT IN (SELECT run_id FROM saved);

CREATE OR REPLACE TEMP TABLE lost AS
SELECT f.rid, f.attempt, f.lost_cause,
    coalesce((SELECT max(s.at_us) // 1000 FROM saved s WHERE s.run_id = k.run_id
        AND s.at_us // 1000 BETWEEN f.from_ms AND f.until_ms), f.from_ms) AS lost_from_ms
FROM failed f JOIN run_keys k USING (rid) ANTI JOIN unwatched USING (rid, attempt)
