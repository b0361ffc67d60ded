-- Every millisecond of every slice gets its state. Whole numbers throughout: what is subtracted here is added there.

CREATE OR REPLACE TEMP TABLE split AS
WITH judged AS (
    SELECT w.sid, w.window_ms, w.rid, w.ms, w.slowed, w.slowed_by, v.is_hung, v.is_underused, v.is_service,
        CASE WHEN w.in_checkpoint THEN w.ms::BIGINT * greatest(0, coalesce(w.best, 0) - w.activity) // greatest(coalesce(w.best, 1), 1) ELSE 0 END AS saving_ms,
        CASE WHEN w.in_checkpoint OR v.is_hung THEN 0 ELSE w.ms::BIGINT * w.still // 1000 END AS still_ms,
        CASE WHEN w.in_checkpoint OR v.is_hung OR NOT coalesce(v.is_exchanging, false) THEN 0 ELSE w.ms::BIGINT * w.short // 1000 END AS short_ms
    FROM worked w LEFT JOIN verdicts v USING (rid, window_ms)
), slowed AS (
    SELECT *, ms - saving_ms - still_ms - short_ms AS left_ms,
        CASE WHEN slowed >= $slowed_permille AND NOT coalesce(is_hung, false) THEN (ms - saving_ms - still_ms - short_ms) * slowed // 1000 ELSE 0 END AS slow_ms
    FROM judged
)
SELECT sid, window_ms, rid, sum(ms)::BIGINT AS ms, sum(saving_ms)::BIGINT AS saving_ms, sum(still_ms)::BIGINT AS still_ms, sum(short_ms)::BIGINT AS short_ms,
    coalesce(sum(slow_ms) FILTER (slowed_by = 1), 0)::BIGINT AS slow_power_ms, coalesce(sum(slow_ms) FILTER (slowed_by = 2), 0)::BIGINT AS slow_heat_ms,
    coalesce(sum(slow_ms) FILTER (slowed_by = 3), 0)::BIGINT AS slow_board_ms, sum(left_ms - slow_ms)::BIGINT AS rest_ms
FROM slowed GROUP BY ALL;

-- What was worked, by the verdict of its window.
CREATE OR REPLACE TEMP TABLE booked AS
WITH s AS (
    SELECT s.*, v.* EXCLUDE (rid, window_ms), s.short_ms * coalesce(v.straggler_permille, 0) // 1000 AS straggler_ms,
        s.short_ms * coalesce(v.cross_rack_permille, 0) // 1000 AS cross_ms
    FROM split s LEFT JOIN verdicts v USING (rid, window_ms)
), lines AS (
    SELECT sid, 'checkpointing' AS state, 'storage' AS cause, NULL::VARCHAR AS suspicion, 'medium' AS confidence, NULL::VARCHAR AS caused_by, saving_ms AS ms FROM s
    UNION ALL SELECT sid, 'headroom', 'declared', NULL, 'medium', NULL, still_ms FROM s WHERE is_service
    UNION ALL SELECT sid, 'starved', input_cause, NULL, input_confidence, NULL, still_ms FROM s WHERE input_cause IS NOT NULL AND is_service IS DISTINCT FROM true
    UNION ALL SELECT sid, 'unexplained', NULL, input_suspicion, 'low', NULL, still_ms FROM s WHERE input_cause IS NULL AND is_low AND is_service IS DISTINCT FROM true
    UNION ALL SELECT sid, 'productive', coalesce(work, 'compute'), NULL, 'medium', NULL, still_ms FROM s
        WHERE input_cause IS NULL AND is_low IS DISTINCT FROM true AND is_service IS DISTINCT FROM true
    UNION ALL SELECT sid, 'communicating', 'straggler', NULL, 'medium', caused_by, straggler_ms FROM s
    UNION ALL SELECT sid, 'communicating', 'cross_rack', NULL, exchange_confidence, NULL, cross_ms FROM s
    UNION ALL SELECT sid, 'communicating', 'collective', NULL, 'medium', NULL, short_ms - straggler_ms - cross_ms FROM s
    UNION ALL SELECT sid, 'communicating', 'hang', NULL, 'high', NULL, rest_ms FROM s WHERE is_hung
    UNION ALL SELECT sid, 'throttled', 'power', NULL, 'high', NULL, slow_power_ms FROM s
    UNION ALL SELECT sid, 'throttled', 'thermal', NULL, 'high', NULL, slow_heat_ms FROM s
    UNION ALL SELECT sid, 'throttled', 'hardware', NULL, 'high', NULL, slow_board_ms FROM s
    UNION ALL SELECT sid, 'underused', underused_cause, NULL, underused_confidence, NULL, rest_ms FROM s WHERE is_underused AND is_hung IS DISTINCT FROM true
    UNION ALL SELECT sid, 'productive', coalesce(work, 'compute'), NULL, 'medium', NULL, rest_ms FROM s
        WHERE is_underused IS DISTINCT FROM true AND is_hung IS DISTINCT FROM true
)
SELECT * FROM lines WHERE ms > 0;

-- What was held and not worked, and what was held by nobody.
INSERT INTO booked
WITH rest AS (
    SELECT p.sid, p.up, p.fixed, sum(p.ms)::BIGINT AS ms FROM pieces p
    WHERE p.rid IS NULL OR p.fixed IS NOT NULL OR NOT p.up OR p.activity IS NULL GROUP BY ALL
), silent AS (
    SELECT s.sid, NULL::BOOLEAN AS up, s.fixed, s.until_ms - s.from_ms - coalesce(p.ms, 0) AS ms
    FROM slices s LEFT JOIN (SELECT sid, sum(ms)::BIGINT AS ms FROM pieces GROUP BY sid) p USING (sid)
), both AS (
    SELECT * FROM rest UNION ALL SELECT * FROM silent WHERE ms > 0
), known AS (
    SELECT b.sid, b.up, b.fixed, b.ms, s.rid, s.attempt, s.host_state, s.is_fragment, s.nid IN (SELECT nid FROM scheduled_nodes) AS is_scheduled,
        u.uuid IN (SELECT gpu_uuid FROM seen) AS is_seen, b.ms >= $gap_ms AS is_long
    FROM both b JOIN slices s USING (sid) JOIN units u USING (uid) WHERE b.ms > 0
)
SELECT sid,
    CASE WHEN rid IS NULL AND host_state IN ('drained', 'reserved') THEN 'unallocated'
         WHEN rid IS NULL AND is_fragment THEN 'unallocated'
         WHEN up = false OR (host_state = 'down' AND up IS NULL) THEN 'broken'
         WHEN rid IS NULL AND (up OR is_scheduled) THEN 'unallocated'
         WHEN up IS NULL THEN 'unobserved'
         WHEN fixed = 'starting' THEN 'starting'
         WHEN fixed IS NOT NULL THEN 'held_idle'
         ELSE 'unobserved' END AS state,
    CASE WHEN rid IS NULL AND host_state IN ('drained', 'reserved') THEN if(host_state = 'drained', 'drained', 'reserved_unused')
         WHEN rid IS NULL AND is_fragment THEN 'fragmented'
         WHEN up = false THEN 'gpu_lost'
         WHEN host_state = 'down' AND up IS NULL THEN 'node_down'
         WHEN rid IS NULL AND (up OR is_scheduled) THEN 'free'
         WHEN up IS NULL AND NOT is_seen THEN 'never_seen'
         WHEN up IS NULL THEN if(is_long, 'agent_down', 'gap')
         WHEN fixed = 'starting' THEN if(attempt > 0, 'restore', 'model_load')
         WHEN fixed IS NOT NULL THEN fixed
         ELSE 'gap' END AS cause,
    NULL, CASE WHEN fixed IS NULL OR up IS NULL THEN NULL ELSE 'high' END, NULL, ms
FROM known;

-- Shared time: each holder's states are scaled to its part, to the millisecond, largest remainders first.
CREATE OR REPLACE TEMP TABLE quotas AS
WITH weighed AS (
    SELECT sid, gid, from_ms, until_ms - from_ms AS ms, weight, sum(weight) OVER (PARTITION BY gid, from_ms) AS total FROM slices
), based AS (
    SELECT *, (ms::HUGEINT * weight // total)::BIGINT AS base, ms::HUGEINT * weight % total AS remainder FROM weighed
)
SELECT sid, ms, base + CASE WHEN row_number() OVER (PARTITION BY gid, from_ms ORDER BY remainder DESC, sid)
    <= ms - sum(base) OVER (PARTITION BY gid, from_ms) THEN 1 ELSE 0 END AS quota, weight <> total AS is_part
FROM based;

CREATE OR REPLACE TEMP TABLE scaled AS
WITH based AS (
    SELECT b.*, q.quota, (b.ms::HUGEINT * q.quota // q.ms)::BIGINT AS base, b.ms::HUGEINT * q.quota % q.ms AS remainder
    FROM (SELECT sid, state, cause, suspicion, confidence, caused_by, sum(ms)::BIGINT AS ms FROM booked GROUP BY ALL) b JOIN quotas q USING (sid)
)
SELECT sid, state, cause, suspicion, confidence, caused_by, base + CASE WHEN row_number() OVER (
        PARTITION BY sid ORDER BY remainder DESC, state, cause, suspicion, confidence, caused_by) <= quota - sum(base) OVER (PARTITION BY sid) THEN 1 ELSE 0 END AS ms
FROM based;

CREATE OR REPLACE TEMP TABLE ledger_here AS
SELECT s.hour_ms * 1000 AS hour, g.gpu_uuid, g.node, s.sku, s.purchase_option, k.run_id, s.attempt,
    CASE WHEN l.is_lost THEN 'lost_work' ELSE b.state END AS state, CASE WHEN l.is_lost THEN s.lost_cause ELSE b.cause END AS cause,
    CASE WHEN l.is_lost THEN b.state END AS would_be, b.caused_by, b.suspicion, CASE WHEN l.is_lost THEN 'high' ELSE b.confidence END AS confidence,
    s.is_shared AS shared, sum(b.ms)::BIGINT AS milliseconds
FROM scaled b JOIN slices s USING (sid) JOIN gpus g USING (gid) LEFT JOIN run_keys k ON k.rid = s.rid
CROSS JOIN LATERAL (SELECT s.is_lost AND b.state IN ('communicating', 'throttled', 'underused', 'starved', 'productive') AS is_lost) l
WHERE b.ms > 0
GROUP BY ALL
