-- What the next hour goes on from.
-- only with run_loads
DELETE FROM run_loads WHERE hour >= $from_ms * 1000 AND hour < $until_ms * 1000 AND (gpu_uuid, hour // 1000) IN (
    SELECT (u.uuid, c.hour_ms) FROM chunk c JOIN units u USING (gid));

-- only with loading
INSERT INTO run_loads
SELECT k.run_id, l.attempt, u.uuid, l.from_ms * 1000, c.hour_ms * 1000,
    greatest(l.seen_ms, max(s.until_ms)) * 1000 AS seen_until, greatest(l.grown_ms, max(s.last_grown_ms)) * 1000
FROM loading l JOIN run_keys k USING (rid) JOIN units u USING (uid)
JOIN chunk c ON c.gid = u.gid AND l.from_ms < c.hour_ms + 3600000 AND l.until_ms >= c.hour_ms + 3600000
    AND coalesce(l.at_ms >= c.hour_ms + 3600000, true)
LEFT JOIN load_signs s ON s.rid = l.rid AND s.attempt = l.attempt AND s.uid = l.uid AND s.held_ms = l.from_ms
    AND s.from_ms < c.hour_ms + 3600000
GROUP BY k.run_id, l.attempt, u.uuid, l.from_ms, c.hour_ms, l.seen_ms, l.grown_ms
HAVING greatest(l.seen_ms, max(s.until_ms)) + $starting_ms >= c.hour_ms + 3600000;

CREATE OR REPLACE TEMP TABLE start_ends AS
WITH seen AS (
    SELECT rid, attempt, uid, held_ms AS from_ms, max(until_ms) AS seen_ms FROM load_signs GROUP BY ALL
), before AS (
    SELECT rid, attempt, uid, from_ms, max(seen_ms) AS seen_ms FROM loading GROUP BY ALL
)
SELECT DISTINCT h.rid, h.attempt, h.uid, h.from_ms, f.at_ms AS first_ms,
    least(f.at_ms, greatest(h.from_ms + $starting_ms, b.seen_ms, s.seen_ms)) AS started_ms
FROM holds h LEFT JOIN first_work f USING (rid, attempt, uid) LEFT JOIN seen s USING (rid, attempt, uid, from_ms)
LEFT JOIN before b USING (rid, attempt, uid, from_ms)
WHERE h.gid IN (SELECT gid FROM chunk_gpus) AND h.from_ms < $until_ms AND h.until_ms > $from_ms
