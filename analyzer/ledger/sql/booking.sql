-- Every millisecond of every slice gets its state. Whole numbers throughout: what is subtracted here is added there.

-- What was worked, by the verdict of its window.
-- only with work
CREATE OR REPLACE TEMP TABLE booked AS
WITH judged AS (
    SELECT w.sid, w.bucket_ms, w.over_network, w.ms, w.saving_ms, w.spin_ms, if(h.is_hung, 0, w.still_ms) AS still_ms,
        if(h.is_exchanging, w.short_ms, 0) AS short_ms,
        CASE WHEN h.is_hung THEN 0 WHEN h.is_exchanging THEN beside_power_ms ELSE whole_power_ms END AS slow_power_ms,
        CASE WHEN h.is_hung THEN 0 WHEN h.is_exchanging THEN beside_heat_ms ELSE whole_heat_ms END AS slow_heat_ms,
        CASE WHEN h.is_hung THEN 0 WHEN h.is_exchanging THEN beside_board_ms ELSE whole_board_ms END AS slow_board_ms,
        v.* EXCLUDE (rid, window_ms, is_hung, is_exchanging, beyond_policy_permille, idle_permille), h.is_hung,
        coalesce(v.is_service OR v.is_interactive, false) AS waits, coalesce(x.beyond_permille, 0) AS beyond_permille,
        coalesce(x.idle_permille, 0) AS idle_permille, coalesce(x.asked_permille, 0) AS asked_permille
    FROM work w LEFT JOIN verdicts v USING (rid, window_ms) LEFT JOIN excesses x USING (rid, uid, window_ms)
    CROSS JOIN LATERAL (SELECT coalesce(v.is_hung, false) AS is_hung,
        coalesce(v.is_exchanging, false) AS is_exchanging) h
), s AS (
    SELECT *, if(input_cause IS NULL OR waits, 0, still_ms * starved_permille // 1000) AS starved_ms,
        short_ms * coalesce(straggler_permille, 0) // 1000 AS straggler_ms,
        short_ms * coalesce(cross_rack_permille, 0) // 1000 AS cross_ms,
        if(NOT is_hung AND spins_for IS NOT NULL, least(left_ms, spin_ms), 0) AS waiting_ms,
        (left_ms - waiting_ms) * if(is_hung OR is_underused, 0, coalesce(steady_permille, 0)) // 1000 AS steady_ms,
        (left_ms - waiting_ms) * if(is_hung, 0, coalesce(lagging_permille, 0)) // 1000 AS lagging_ms,
        (left_ms - waiting_ms) * if(is_hung OR is_underused, 0, coalesce(crossing_permille, 0)) // 1000 AS crossing_ms,
        left_ms - waiting_ms - steady_ms - crossing_ms - lagging_ms AS rest_ms,
        is_underused AND underused_cause = 'launch_bound' AS launches
    FROM (SELECT *, ms - saving_ms - still_ms - short_ms - slow_power_ms - slow_heat_ms - slow_board_ms AS left_ms
        FROM judged)
), lines AS (
    {worked}
)
SELECT * FROM lines WHERE ms > 0;

-- What was held and not worked, and what was held by nobody.
INSERT INTO booked
WITH rest AS (
    SELECT p.sid, p.from_ms // $bucket_ms * $bucket_ms AS bucket_ms, p.up, p.activity IS NULL AS is_blind,
        sum(p.ms)::BIGINT AS ms FROM pieces p
    WHERE p.rid IS NULL OR p.is_fixed OR NOT p.up OR p.activity IS NULL GROUP BY ALL
), silent AS (
    SELECT s.sid, s.from_ms // $bucket_ms * $bucket_ms AS bucket_ms, NULL::BOOLEAN AS up, true AS is_blind,
        s.until_ms - s.from_ms - coalesce(p.ms, 0) AS ms
    FROM slices s LEFT JOIN (SELECT sid, sum(ms)::BIGINT AS ms FROM pieces GROUP BY sid) p USING (sid)
), unworked AS (
    SELECT * FROM rest UNION ALL SELECT * FROM silent WHERE ms > 0
), computing AS (
    -- A run of which no GPU works, and whose processors do: a forgotten one polls at the most.
    SELECT rid, window_ms FROM cgroup_windows WHERE cores_of_cgroup >= $one_core_least_milli
    UNION SELECT rid, window_ms FROM process_windows WHERE cores_of_processes >= $one_core_least_milli
    EXCEPT SELECT rid, window_ms FROM gpu_windows
), known AS (
    SELECT b.sid, b.bucket_ms, b.up, s.fixed, b.is_blind, b.ms, s.rid, s.starting_as, s.host_state, s.is_fragment,
        s.nid IN (SELECT nid FROM scheduled_nodes) AS is_scheduled,
        u.uuid IN (SELECT gpu_uuid FROM seen) AS is_seen, b.ms >= $gap_ms AS is_long,
        s.rid IS NULL AND EXISTS (SELECT 1 FROM lost_spans l WHERE l.of_holders AND l.from_ms < b.bucket_ms + $bucket_ms
            AND l.until_ms >= b.bucket_ms) AS is_holder_lost,
        s.rid IS NULL AND EXISTS (SELECT 1 FROM hidden_holds h WHERE h.uid = s.uid
            AND h.from_ms < b.bucket_ms + $bucket_ms AND h.until_ms > b.bucket_ms) AS is_holder_hidden,
        EXISTS (SELECT 1 FROM lost_spans l WHERE NOT l.of_holders AND l.from_ms < b.bucket_ms + $bucket_ms
            AND l.until_ms >= b.bucket_ms) AS is_sample_lost,
        c.rid IS NOT NULL AS computes
    FROM unworked b JOIN slices s USING (sid) JOIN units u USING (uid)
    LEFT JOIN computing c ON c.rid = s.rid AND c.window_ms = b.bucket_ms // 600000 * 600000
    WHERE b.ms > 0
)
SELECT sid, bucket_ms,
    {state} AS state, {cause} AS cause,
    NULL, CASE WHEN fixed IS NULL OR up IS NULL THEN NULL WHEN computes AND fixed <> 'starting' THEN 'medium'
        ELSE 'high' END, NULL, ms
FROM known;

-- Shared time: each holder's states are scaled to its part, to the millisecond, largest remainders first.
CREATE OR REPLACE TEMP TABLE quotas AS
WITH weighed AS (
    SELECT sid, gid, from_ms, until_ms - from_ms AS ms, weight, sum(weight) OVER (PARTITION BY gid, from_ms) AS total
        FROM slices
), based AS (
    SELECT *, (ms::HUGEINT * weight // total)::BIGINT AS base, ms::HUGEINT * weight % total AS remainder FROM weighed
)
SELECT sid, ms, base + CASE WHEN row_number() OVER (PARTITION BY gid, from_ms ORDER BY remainder DESC, sid)
    <= ms - sum(base) OVER (PARTITION BY gid, from_ms) THEN 1 ELSE 0 END AS quota, weight <> total AS is_part
FROM based;

CREATE OR REPLACE TEMP TABLE scaled AS
WITH based AS (
    SELECT b.*, q.quota, (b.ms::HUGEINT * q.quota // q.ms)::BIGINT AS base, b.ms::HUGEINT * q.quota % q.ms AS remainder
    FROM (SELECT sid, state, cause, suspicion, confidence, caused_by, sum(ms)::BIGINT AS ms FROM booked GROUP BY ALL) b
        JOIN quotas q USING (sid)
)
SELECT sid, state, cause, suspicion, confidence, caused_by, base + CASE WHEN row_number() OVER (
        PARTITION BY sid ORDER BY remainder DESC, state, cause, suspicion, confidence, caused_by) <= quota
            - sum(base) OVER (PARTITION BY sid) THEN 1 ELSE 0 END AS ms
FROM based;

CREATE OR REPLACE TEMP TABLE ledger_here AS
SELECT s.hour_ms * 1000 AS hour, g.gpu_uuid, g.node, s.sku, s.purchase_option, k.run_id, s.attempt,
    CASE WHEN l.is_lost THEN 'lost_work' ELSE b.state END AS state, CASE WHEN l.is_lost THEN s.lost_cause
        ELSE b.cause END AS cause,
    CASE WHEN l.is_lost THEN b.state END AS would_be, b.caused_by, b.suspicion,
    CASE WHEN l.is_lost THEN o.lost_confidence ELSE b.confidence END AS confidence,
    s.is_shared AS shared, sum(b.ms)::BIGINT AS milliseconds
FROM scaled b JOIN slices s USING (sid) JOIN gpus g USING (gid) LEFT JOIN run_keys k ON k.rid = s.rid
LEFT JOIN lost o ON o.rid = s.rid AND o.attempt = s.attempt
CROSS JOIN LATERAL (SELECT s.is_lost AND list_contains($losable, b.state) AS is_lost) l
WHERE b.ms > 0
GROUP BY ALL;

-- only with run_timeline
DELETE FROM run_timeline WHERE bucket_start >= $from_us AND bucket_start < $until_us
    AND (run_id, bucket_start // 3600000000 * 3600000) IN (SELECT (run_id, hour_ms) FROM remade);

-- Of a shared GPU each holder has its part, as in the ledger: what all up to a line come to, less those before it.
INSERT INTO run_timeline
WITH parts AS (
    SELECT b.sid, b.bucket_ms, b.state, b.cause, b.ms, q.quota, q.ms AS whole, sum(b.ms) OVER (PARTITION BY b.sid
        ORDER BY b.bucket_ms, b.state, b.cause, b.ms ROWS UNBOUNDED PRECEDING)::HUGEINT AS upto
    FROM booked b JOIN quotas q USING (sid) WHERE q.is_part
), told AS (
    SELECT sid, bucket_ms, state, cause, (upto * quota // whole - (upto - ms) * quota // whole)::BIGINT AS ms FROM parts
    UNION ALL
    SELECT sid, bucket_ms, state, cause, ms FROM booked SEMI JOIN (FROM quotas WHERE NOT is_part) USING (sid)
)
SELECT k.run_id, b.bucket_ms * 1000, if(l.is_lost, 'lost_work', b.state), if(l.is_lost, s.lost_cause, b.cause),
    sum(b.ms)::BIGINT
FROM told b JOIN slices s USING (sid) JOIN run_keys k USING (rid)
CROSS JOIN LATERAL (SELECT s.is_lost AND list_contains($losable, b.state) AS is_lost) l
WHERE b.ms > 0 GROUP BY ALL
