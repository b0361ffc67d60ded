-- First work of each GPU of a run: found here for the chunk and kept in run_gpus. What was found inside the chunk
-- before is found anew, because the samples after it say whether it was the start of the work. Whose memory still grows
-- has not begun to work: what runs on it meanwhile unpacks weights, compiles or captures graphs.
-- only with run_gpus
DELETE FROM run_gpus WHERE first_active_at >= $from_us + $starting_ms * 1000 AND first_active_at < $until_us
    AND gpu_uuid IN (SELECT u.uuid FROM units u JOIN chunk_gpus USING (gid));

CREATE OR REPLACE TEMP TABLE waiting AS
SELECT h.rid, h.attempt, h.uid, h.from_ms, max(h.until_ms) AS until_ms
FROM holds h JOIN run_keys k USING (rid) JOIN units u USING (uid)
LEFT JOIN run_gpus g ON g.run_id = k.run_id AND g.attempt = h.attempt AND g.gpu_uuid = u.uuid
WHERE h.gid IN (SELECT gid FROM chunk_gpus) AND h.from_ms < $until_us // 1000 AND h.until_ms > $from_us // 1000
    AND (g.first_active_at IS NULL OR g.first_active_at >= $from_us + $starting_ms * 1000)
GROUP BY ALL;

-- Minutes in which a GPU of a run spins while one that has not begun either does nothing: it waits for that one in a
-- barrier, and has not begun to work.
-- only with waiting, any_spinning
CREATE OR REPLACE TEMP TABLE barriers AS
WITH spinning AS (
    SELECT DISTINCT h.rid, h.attempt, h.uid, n.from_ms // 60000 * 60000 AS minute_ms
    FROM (SELECT uid, from_ms, until_ms FROM narrow WHERE spins AND up) n
    JOIN waiting h ON h.uid = n.uid AND h.from_ms < n.until_ms AND n.from_ms < h.until_ms
), resting AS (
    SELECT DISTINCT h.rid, h.attempt, n.from_ms // 60000 * 60000 AS minute_ms
    FROM (SELECT * FROM waiting SEMI JOIN spinning USING (rid, attempt)) h
    JOIN (SELECT uid, from_ms, until_ms FROM narrow WHERE up AND activity <= $active_permille) n
        ON n.uid = h.uid AND h.from_ms < n.until_ms AND n.from_ms < h.until_ms
)
FROM spinning SEMI JOIN resting USING (rid, attempt, minute_ms);

-- Minute by minute until a GPU is busy: the first sign of life in it, and how much more memory is in use then and a
-- quarter of an hour later than in the one before.
-- only with waiting
CREATE OR REPLACE TEMP TABLE young_minutes AS
WITH busy AS (
    SELECT h.rid, h.attempt, h.uid, h.from_ms, min(greatest(n.from_ms, h.from_ms)) AS busy_ms
    FROM (SELECT uid, from_ms, until_ms, from_ms // 60000 * 60000 AS minute_ms FROM narrow
        WHERE up AND activity > $begun_permille AND until_ms > from_ms) n
    JOIN waiting h ON h.uid = n.uid AND h.from_ms < n.until_ms AND n.from_ms < h.until_ms
    LEFT JOIN barriers r ON r.uid = h.uid AND r.rid = h.rid AND r.attempt = h.attempt AND r.minute_ms = n.minute_ms
    WHERE r.rid IS NULL AND greatest(n.from_ms, h.from_ms) >= $from_us // 1000 + $starting_ms GROUP BY ALL
), minutes AS (
    SELECT h.*, b.busy_ms, greatest(n.from_ms, h.from_ms) // 60000 * 60000 AS minute_ms,
        max(least(n.until_ms, h.until_ms)) AS seen_ms, max(n.memory_mb) AS memory_mb,
        coalesce(max(n.activity) FILTER (r.rid IS NULL) > $quiet_permille, false) AS stirs,
        min(greatest(n.from_ms, h.from_ms)) FILTER (n.activity > $active_permille AND r.rid IS NULL) AS alive_ms
    FROM waiting h LEFT JOIN busy b USING (rid, attempt, uid, from_ms)
    JOIN narrow n ON n.uid = h.uid AND n.up AND n.until_ms > n.from_ms AND h.from_ms < n.until_ms
        AND n.from_ms < least(h.until_ms, b.busy_ms + $starting_ms)
    LEFT JOIN barriers r ON r.uid = h.uid AND r.rid = h.rid AND r.attempt = h.attempt
        AND r.minute_ms = n.from_ms // 60000 * 60000
    GROUP BY ALL
)
SELECT *, memory_mb - max(memory_mb) OVER (own RANGE BETWEEN $starting_ms PRECEDING AND 60000 PRECEDING) AS grown_mb,
    max(memory_mb) OVER (own RANGE BETWEEN CURRENT ROW AND $starting_ms FOLLOWING)
        - max(memory_mb) OVER (own RANGE BETWEEN $starting_ms PRECEDING AND CURRENT ROW) AS growing_mb
FROM minutes WINDOW own AS (PARTITION BY rid, attempt, uid, from_ms ORDER BY minute_ms);

-- only with young_minutes
CREATE OR REPLACE TEMP TABLE first_here AS
WITH alive AS (
    SELECT rid, attempt, uid, min(busy_ms) AS busy_ms, min(alive_ms) FILTER (alive_ms >= $from_us // 1000 + $starting_ms
        AND coalesce(growing_mb < $held_mb, true)) AS alive_ms
    FROM young_minutes GROUP BY ALL
)
SELECT rid, attempt, uid, CASE WHEN busy_ms <= coalesce(alive_ms + $warm_up_ms, busy_ms) THEN busy_ms
    ELSE alive_ms END AS at_ms
FROM alive WHERE coalesce(busy_ms, alive_ms) IS NOT NULL;

-- only with first_here
INSERT INTO run_gpus
SELECT k.run_id, f.attempt, u.uuid, f.at_ms * 1000 FROM first_here f JOIN run_keys k USING (rid)
    JOIN units u USING (uid)
ON CONFLICT DO UPDATE SET first_active_at = excluded.first_active_at;

-- only with run_gpus
CREATE OR REPLACE TEMP TABLE first_work AS
SELECT k.rid, g.attempt, u.uid, g.first_active_at // 1000 AS at_ms
FROM run_gpus g JOIN run_keys k USING (run_id) JOIN units u ON u.uuid = g.gpu_uuid
