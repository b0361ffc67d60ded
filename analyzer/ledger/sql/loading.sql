-- Until when each start lasts. A quarter of an hour is given to each; beyond that a GPU starts as long as it is seen to
-- load: its memory grows, or, before any GPU of its run works, that of the others does, its run computes, or
-- something is read. What processors and disks do counts while the GPUs rest, since it may feed one that hardly works,
-- and for an hour after memory grew last: a job that computes on processors for hours loads nothing.
CREATE OR REPLACE TEMP TABLE loading AS
WITH run_work AS (
    SELECT rid, attempt, min(at_ms) AS work_ms FROM first_work GROUP BY ALL
), before AS (
    SELECT k.rid, l.attempt, u.uid, l.held_from // 1000 AS from_ms, l.seen_until // 1000 AS seen_ms,
        l.grown_until // 1000 AS grown_ms
    FROM run_loads l JOIN run_keys k USING (run_id) JOIN units u ON u.uuid = l.gpu_uuid
    WHERE l.hour = ($from_ms - 3600000) * 1000
), held AS (
    SELECT h.rid, h.attempt, h.uid, u.nid, h.from_ms, max(h.until_ms) AS until_ms FROM holds h JOIN units u USING (uid)
    WHERE h.gid IN (SELECT gid FROM chunk_gpus) AND h.from_ms < $until_ms AND h.until_ms > $from_ms GROUP BY ALL
)
SELECT h.*, f.at_ms, least(w.work_ms, if(s.first_ms >= h.from_ms, s.first_ms, NULL)) AS work_ms,
    coalesce(b.seen_ms, h.from_ms) AS seen_ms, coalesce(b.grown_ms, h.from_ms) AS grown_ms,
    if(b.rid IS NULL, h.from_ms, greatest(h.from_ms, $from_ms)) AS look_from_ms
FROM held h LEFT JOIN first_work f USING (rid, attempt, uid) LEFT JOIN run_work w USING (rid, attempt)
LEFT JOIN before b USING (rid, attempt, uid, from_ms) LEFT JOIN serving_runs s ON s.rid = h.rid
WHERE coalesce(f.at_ms > greatest($from_ms, h.from_ms + $starting_ms), true)
    AND (b.rid IS NOT NULL OR h.from_ms >= $from_ms - 2 * $starting_ms);

CREATE OR REPLACE TEMP TABLE load_signs (
    rid BIGINT, attempt BIGINT, uid BIGINT, held_ms BIGINT, from_ms BIGINT, until_ms BIGINT, last_grown_ms BIGINT)
