-- What was seen of each start that touches this chunk: when its processes, its GPU context and its first kernel came.
-- Hours see no further back than half an hour, so that an image is looked for in the first half hour alone, and kernels
-- in the last quarter of one.
-- only with start_ends
CREATE OR REPLACE TEMP TABLE starts_seen AS
WITH starts AS (
    SELECT h.rid, h.attempt, h.uid, u.nid, h.from_ms, h.until_ms, least(e.started_ms, h.until_ms) AS started_ms,
        h.from_ms + 2 * $starting_ms AS image_ms
    FROM holds h JOIN units u USING (uid) JOIN start_ends e USING (rid, attempt, uid, from_ms)
    WHERE h.gid IN (SELECT gid FROM chunk_gpus) AND e.started_ms > $from_ms AND h.until_ms > $from_ms
        AND h.from_ms < $until_ms
), lives AS (
    SELECT k.rid, n.nid, started_at // 1000 AS from_ms FROM run_samples s JOIN nodes n USING (node)
    JOIN run_names k ON k.run_id = s.run_id AND s.started_at >= k.from_us AND s.started_at < k.until_us
    WHERE s.started_at >= ($from_ms - $margin_ms) * 1000 AND s.started_at < ($until_ms + $margin_ms) * 1000
        AND memory_used_bytes >= $process_bytes
    UNION ALL
    SELECT k.rid, n.nid, started_at // 1000 FROM process_samples s JOIN nodes n USING (node)
    JOIN run_names k ON k.run_id = s.run_id AND s.started_at >= k.from_us AND s.started_at < k.until_us
    WHERE s.started_at >= ($from_ms - $margin_ms) * 1000 AND s.started_at < ($until_ms + $margin_ms) * 1000
), begun AS (
    SELECT s.rid, s.attempt, s.uid, s.from_ms, min(l.from_ms) AS life_ms
    FROM starts s JOIN lives l ON l.rid = s.rid AND l.nid = s.nid
        AND l.from_ms > s.from_ms - 2 * $starting_ms AND l.from_ms < least(s.until_ms, s.image_ms)
    WHERE s.image_ms > $from_ms GROUP BY ALL
), seen AS (
    SELECT s.rid, s.attempt, s.uid, s.from_ms, count(n.memory_mb) FILTER (n.from_ms < s.image_ms) > 0 AS has_memory,
        min(n.from_ms) FILTER (n.memory_mb > $held_mb AND n.from_ms >= s.from_ms
            AND n.from_ms < s.image_ms) AS context_ms,
        min(greatest(n.from_ms, s.from_ms)) FILTER (n.activity > $active_permille
            AND n.until_ms > s.started_ms - $starting_ms) AS kernel_ms
    FROM starts s JOIN narrow n ON n.uid = s.uid AND n.up AND n.from_ms < s.started_ms AND n.until_ms > s.from_ms
    WHERE s.started_ms > s.from_ms GROUP BY ALL
), unpacked AS (
    SELECT s.rid, s.attempt, s.uid, s.from_ms, amount(sum(r.written_bytes)) AS written_bytes
    FROM starts s JOIN seen n USING (rid, attempt, uid, from_ms) JOIN run_names k USING (rid)
    JOIN run_samples r ON r.run_id = k.run_id AND r.started_at >= k.from_us AND r.started_at < k.until_us
        AND r.started_at < least(n.context_ms, s.started_ms, s.image_ms) * 1000 AND r.ended_at > s.from_ms * 1000
    JOIN nodes o ON o.node = r.node AND o.nid = s.nid
    WHERE r.started_at >= ($from_ms - $margin_ms) * 1000 AND r.started_at < ($until_ms + $margin_ms) * 1000
        AND s.image_ms > $from_ms GROUP BY ALL
)
SELECT DISTINCT s.rid, s.attempt, s.uid, s.from_ms, s.started_ms, n.has_memory, n.context_ms, n.kernel_ms, b.life_ms,
    starts_with(k.run_id, 'kubernetes/') AS is_pod, w.written_bytes
FROM starts s JOIN seen n USING (rid, attempt, uid, from_ms) JOIN run_keys k USING (rid)
LEFT JOIN begun b USING (rid, attempt, uid, from_ms) LEFT JOIN unpacked w USING (rid, attempt, uid, from_ms)
