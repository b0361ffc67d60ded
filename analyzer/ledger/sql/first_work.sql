-- First work of each GPU of a run: found here for the chunk and kept in run_gpus. What was found inside the chunk
-- before is
-- found anew, because the samples after it say whether it was the start of the work.
DELETE FROM run_gpus WHERE first_active_at >= $from_us AND first_active_at < $until_us
    AND gpu_uuid IN (SELECT u.uuid FROM units u JOIN chunk_gpus USING (gid));

CREATE OR REPLACE TEMP TABLE waiting AS
SELECT h.* FROM holds h JOIN run_keys k USING (rid) JOIN units u USING (uid)
LEFT JOIN run_gpus g ON g.run_id = k.run_id AND g.attempt = h.attempt AND g.gpu_uuid = u.uuid
WHERE h.gid IN (SELECT gid FROM chunk_gpus) AND h.from_ms < $until_us // 1000 AND h.until_ms > $from_us // 1000
    AND (g.first_active_at IS NULL OR g.first_active_at >= $from_us);

CREATE OR REPLACE TEMP TABLE first_here AS
WITH alive AS (
    SELECT h.rid, h.attempt, h.uid, min(greatest(n.from_ms, h.from_ms)) AS alive_ms,
        min(greatest(n.from_ms, h.from_ms)) FILTER (n.activity > $begun_permille) AS busy_ms
    FROM (SELECT uid, from_ms, until_ms, activity FROM narrow WHERE up AND activity > $active_permille
        AND until_ms > from_ms) n
    JOIN waiting h ON h.uid = n.uid AND h.from_ms < n.until_ms AND n.from_ms < h.until_ms
    GROUP BY ALL
)
SELECT rid, attempt, uid, CASE WHEN busy_ms <= alive_ms + $warm_up_ms THEN busy_ms ELSE alive_ms END AS at_ms
    FROM alive;

INSERT INTO run_gpus
SELECT k.run_id, f.attempt, u.uuid, f.at_ms * 1000 FROM first_here f JOIN run_keys k USING (rid)
    JOIN units u USING (uid)
ON CONFLICT DO UPDATE SET first_active_at = excluded.first_active_at;

CREATE OR REPLACE TEMP TABLE first_work AS
SELECT k.rid, g.attempt, u.uid, g.first_active_at // 1000 AS at_ms
FROM run_gpus g JOIN run_keys k USING (run_id) JOIN units u ON u.uuid = g.gpu_uuid
