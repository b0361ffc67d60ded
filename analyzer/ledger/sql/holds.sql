-- Who holds which unit when. Offsets of clocks are read from a day before $from_us on: edges before it are not booked
-- anew.

CREATE OR REPLACE TEMP TABLE holds AS
WITH scheduled AS (
    SELECT run_id, gpu_uuid, until_ms AS end_ms FROM allocation_now
    WHERE precedence = 0 AND ended_at IS NOT NULL AND gpu_uuid IS NOT NULL AND until_ms > from_ms
), told AS (
    -- A host learns of an end at its next reading, or the one after: what its scheduler says of the same run counts.
    SELECT a.* REPLACE (CASE WHEN a.precedence > 0 AND a.until_ms - s.end_ms <= 60000 AND s.end_ms > a.from_ms
        THEN s.end_ms
        ELSE a.until_ms END AS until_ms)
    FROM allocation_now a ASOF LEFT JOIN scheduled s
        ON s.run_id = a.run_id AND s.gpu_uuid = a.gpu_uuid AND s.end_ms <= a.until_ms
), taken AS (
    SELECT k.rid, a.attempt, u.uid, u.gid, u.nid, a.from_ms, a.until_ms, a.precedence, a.exit_status,
        a.ended_at IS NOT NULL AS ended,
        lag(a.until_ms) OVER (PARTITION BY u.uid, a.precedence ORDER BY a.from_ms, a.until_ms, k.rid,
            a.attempt) AS before_ms
    FROM told a JOIN run_keys k USING (run_id) JOIN units u ON u.uuid = a.gpu_uuid
    WHERE a.until_ms > a.from_ms
), offsets AS (
    SELECT n.nid, s.ended_at // 1000 AS at_ms, max(milli(abs(s.clock_offset_seconds))) AS offset_ms
    FROM agent_samples s JOIN nodes n USING (node) WHERE s.clock_offset_seconds IS NOT NULL
        AND s.ended_at >= $from_us - 86400000000 GROUP BY ALL
)
-- Two clocks never agree: an edge that lies as near to the last one as the clocks were seen to be apart is that edge.
SELECT t.rid, t.attempt, t.uid, t.gid,
    CASE WHEN abs(t.from_ms - t.before_ms) <= least(coalesce(o.offset_ms, 0), 5000) AND t.before_ms < t.until_ms
        THEN t.before_ms
         ELSE t.from_ms END AS from_ms,
    t.until_ms, t.precedence, t.exit_status, t.ended
FROM taken t ASOF LEFT JOIN offsets o ON o.nid = t.nid AND o.at_ms <= t.from_ms
