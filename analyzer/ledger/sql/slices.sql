-- Time of each owned GPU cut wherever its holders, its owner, its scheduler's word or its quiet changes, and at each
-- hour.

CREATE OR REPLACE TEMP TABLE owned_hours AS
SELECT o.gid, h.hour_ms, greatest(o.from_ms, h.hour_ms) AS from_ms, least(o.until_ms, h.hour_ms + 3600000) AS until_ms,
    o.sku, o.purchase_option
FROM owned o JOIN chunk h ON h.gid = o.gid AND o.from_ms < h.hour_ms + 3600000 AND o.until_ms > h.hour_ms;

-- Holds of the chunk with what bounds their states: the end of starting, and where lost work begins.
-- only with holds
CREATE OR REPLACE TEMP TABLE holds_here AS
SELECT h.*, e.first_ms, least(e.started_ms, h.until_ms) AS started_ms, l.lost_from_ms, l.lost_cause,
    s.image_until_ms, s.warm_from_ms
FROM holds h JOIN start_ends e USING (rid, attempt, uid, from_ms) LEFT JOIN lost l USING (rid, attempt)
LEFT JOIN (SELECT DISTINCT * FROM starts) s ON s.rid = h.rid AND s.attempt = h.attempt AND s.uid = h.uid
    AND s.from_ms = h.from_ms
WHERE h.gid IN (SELECT gid FROM chunk_gpus) AND h.from_ms < $until_ms AND h.until_ms > $from_ms;

CREATE OR REPLACE TEMP TABLE cuts AS
WITH every AS (
    SELECT gid, from_ms AS at_ms FROM owned_hours
    UNION SELECT gid, until_ms FROM owned_hours
    UNION SELECT gid, from_ms FROM holds_here
    UNION SELECT gid, until_ms FROM holds_here
    UNION SELECT gid, started_ms FROM holds_here
    UNION SELECT gid, image_until_ms FROM holds_here WHERE image_until_ms IS NOT NULL
    UNION SELECT gid, warm_from_ms FROM holds_here WHERE warm_from_ms IS NOT NULL
    UNION SELECT gid, lost_from_ms FROM holds_here WHERE lost_from_ms IS NOT NULL
    UNION SELECT gid, q.from_ms FROM quiet q JOIN units USING (uid)
    UNION SELECT gid, q.until_ms FROM quiet q JOIN units USING (uid)
    UNION SELECT gid, s.from_ms FROM host_states s JOIN units USING (nid)
    UNION SELECT gid, s.until_ms FROM host_states s JOIN units USING (nid)
)
SELECT gid, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY gid ORDER BY at_ms) AS until_ms
FROM every WHERE at_ms BETWEEN $from_ms AND $until_ms;

CREATE OR REPLACE TEMP TABLE moments AS
SELECT c.gid, c.from_ms, c.until_ms, o.hour_ms, o.sku, o.purchase_option, g.node, n.nid, s.state AS host_state,
    EXISTS (SELECT 1 FROM units m WHERE m.gid = c.gid AND m.is_mig AND m.slices IS NOT NULL) AS is_partitioned
FROM cuts c
JOIN owned_hours o ON o.gid = c.gid AND o.hour_ms = c.from_ms // 3600000 * 3600000 AND c.from_ms >= o.from_ms
    AND c.until_ms <= o.until_ms
JOIN gpus g ON g.gid = c.gid JOIN nodes n ON n.node = g.node
LEFT JOIN host_states s ON s.nid = n.nid AND s.from_ms <= c.from_ms AND s.until_ms >= c.until_ms
WHERE c.until_ms > c.from_ms;

-- Who holds each moment: of several sources the most trusted alone, and each run once.
-- only with holds_here
CREATE OR REPLACE TEMP TABLE candidates AS
SELECT m.gid, m.from_ms, m.until_ms, h.uid, h.rid, h.attempt, h.precedence, h.from_ms AS held_from_ms,
    h.until_ms AS held_until_ms, h.started_ms, h.first_ms, h.image_until_ms,
    h.warm_from_ms,
    h.lost_from_ms IS NOT NULL AND h.lost_from_ms <= m.from_ms AS is_lost, h.lost_cause,
    h.precedence = min(h.precedence) OVER (PARTITION BY m.gid, m.from_ms, h.uid) AS is_trusted
FROM moments m JOIN holds_here h ON h.gid = m.gid AND h.from_ms <= m.from_ms AND h.until_ms >= m.until_ms
QUALIFY row_number() OVER (PARTITION BY m.gid, m.from_ms, h.uid, h.rid
    ORDER BY h.precedence, h.attempt DESC, h.started_ms) = 1;

-- Others' processes beside those of a holder take the SM time that the driver says they took, and the holder keeps the
-- rest: what nobody used is its own. Where the driver tells no shares, what those took that compute (they keep more
-- than a context, and a core drives them) is not known: all stays with the holder, and is told to be shared. Where no
-- process of a holder is seen, those of others may be its own by another name.
-- only with process_samples, candidates
CREATE OR REPLACE TEMP TABLE foreign_parts AS
WITH contested AS (
    SELECT * FROM candidates
    QUALIFY bool_or(NOT is_trusted) OVER (PARTITION BY gid, from_ms, uid)
), seen AS (
    SELECT c.gid, c.from_ms, c.uid, c.rid, c.is_trusted, c.until_ms - c.from_ms AS ms,
        least(p.ended_at // 1000, c.until_ms) - greatest(p.started_at // 1000, c.from_ms) AS seen_ms,
        max(permille(p.sm_utilization_ratio))::BIGINT AS permille, max(p.memory_used_bytes) AS memory,
        max(milli(p.cpu_seconds)) * 1000 // greatest((p.ended_at - p.started_at) // 1000, 1) AS millicores
    FROM contested c JOIN units u USING (uid) JOIN run_names k USING (rid)
    JOIN process_samples p ON p.run_id = k.run_id AND p.gpu_uuid = u.uuid AND p.started_at // 1000 < c.until_ms
        AND p.ended_at // 1000 > c.from_ms
    WHERE p.started_at >= $from_ms * 1000 - 3600000000 AND p.started_at < $until_ms * 1000
        AND p.started_at >= k.from_us AND p.started_at < k.until_us
    GROUP BY c.gid, c.from_ms, c.until_ms, c.uid, c.rid, c.is_trusted, p.pid, p.started_at, p.ended_at
), shares AS (
    SELECT gid, from_ms, uid, rid, is_trusted,
        least(coalesce(sum(permille * seen_ms), 0) // any_value(ms), 1000)::BIGINT AS permille,
        2 * count(permille) < count(*) AND coalesce(max(memory) >= $held_mb * 1000000, true)
            AND sum(millicores * seen_ms) >= $foreign_millicores * sum(seen_ms) AS computes_untold
    FROM seen GROUP BY ALL
), others AS (
    SELECT gid, from_ms, uid, rid, if(permille >= $foreign_permille, permille, 0) AS permille FROM shares
    WHERE NOT is_trusted AND (permille >= $foreign_permille OR computes_untold)
), own AS (
    SELECT gid, from_ms, uid, sum(permille)::BIGINT AS permille FROM shares WHERE is_trusted GROUP BY ALL
), taken AS (
    SELECT gid, from_ms, uid, sum(permille)::BIGINT AS taken FROM others GROUP BY ALL
)
SELECT gid, from_ms, uid, NULL AS rid, greatest(1000 - taken, permille) AS part,
    greatest(1000, taken + permille) AS whole
FROM taken JOIN own USING (gid, from_ms, uid)
UNION ALL
SELECT o.gid, o.from_ms, o.uid, o.rid, o.permille, greatest(1000, t.taken + w.permille)
FROM others o JOIN taken t USING (gid, from_ms, uid) JOIN own w USING (gid, from_ms, uid) WHERE o.permille > 0;

-- only with candidates
CREATE OR REPLACE TEMP TABLE holders AS
SELECT c.*, if(c.is_trusted, count(*) FILTER (c.is_trusted) OVER (PARTITION BY c.gid, c.from_ms, c.uid), 1) AS sharers,
    f.part, f.whole
FROM candidates c LEFT JOIN foreign_parts f ON f.gid = c.gid AND f.from_ms = c.from_ms AND f.uid = c.uid
    AND f.rid IS NOT DISTINCT FROM if(c.is_trusted, NULL, c.rid)
WHERE c.is_trusted OR f.rid IS NOT NULL;

-- Parts of each moment with their weights: sharers equally, MIG instances by their slices, the remainder as fragments.
CREATE OR REPLACE TEMP TABLE parts AS
WITH free_units AS (
    SELECT m.gid, m.from_ms, u.uid, u.slices
    FROM moments m JOIN units u USING (gid)
    WHERE u.is_mig = m.is_partitioned AND (u.slices IS NOT NULL) = m.is_partitioned
        AND NOT EXISTS (SELECT 1 FROM holders h WHERE h.gid = m.gid AND h.from_ms = m.from_ms
            AND (h.uid = u.uid OR NOT m.is_partitioned))
), every AS (
    SELECT h.gid, h.from_ms, h.uid, h.rid, h.attempt, h.held_from_ms, h.held_until_ms,
        greatest(1, 840 * coalesce(u.slices, 1) * coalesce(h.part, 1) // (coalesce(h.whole, 1) * h.sharers)) AS weight,
        h.sharers > 1 OR h.whole IS NOT NULL AS is_shared,
        h.started_ms, h.first_ms, h.is_lost, h.lost_cause, false AS is_fragment, h.image_until_ms, h.warm_from_ms
    FROM holders h JOIN units u USING (uid)
    UNION ALL
    SELECT gid, from_ms, uid, NULL, NULL, NULL, NULL, 840 * coalesce(slices, 1), false, NULL, NULL, false, NULL, false,
        NULL, NULL FROM free_units
    UNION ALL
    SELECT m.gid, m.from_ms, u.uid, NULL, NULL, NULL, NULL,
        840 * (u.slices_max - (SELECT sum(v.slices) FROM units v WHERE v.gid = m.gid AND v.is_mig)), false, NULL, NULL,
            false, NULL, true, NULL, NULL
    FROM moments m JOIN units u ON u.gid = m.gid AND NOT u.is_mig WHERE m.is_partitioned
)
SELECT * FROM every WHERE weight > 0;

-- Since when the run of a service is more than a name: its policy, a word of its serving stack or work says so, of any
-- run of that service.
-- only with service_runs
CREATE OR REPLACE TEMP TABLE services_known AS
WITH known AS (
    SELECT sid, 0 AS at_ms FROM service_runs WHERE is_declared  -- from ever on
    UNION ALL SELECT r.sid, s.asked_ms FROM serving_runs s JOIN service_runs r USING (rid)
    UNION ALL SELECT r.sid, f.at_ms FROM first_work f JOIN service_runs r USING (rid)
)
SELECT r.rid, min(k.at_ms) AS from_ms FROM known k JOIN service_runs r USING (sid) GROUP BY r.rid;

CREATE OR REPLACE TEMP TABLE slices AS
SELECT row_number() OVER (ORDER BY p.gid, p.from_ms, p.uid, p.rid NULLS FIRST, p.is_fragment)::INTEGER AS sid,
    p.gid, p.uid::INTEGER AS uid, m.nid::INTEGER AS nid, m.hour_ms, p.from_ms, m.until_ms, p.rid::INTEGER AS rid,
        p.attempt, p.weight, p.is_shared, p.is_fragment, p.is_lost, p.lost_cause,
    m.sku, m.purchase_option, m.host_state,
    CASE WHEN p.rid IS NULL THEN NULL
         WHEN p.from_ms < p.started_ms THEN 'starting'
         WHEN q.uid IS NULL THEN NULL
         -- A replica that has loaded its model waits for requests, though none ever came; but a name alone, of which
         -- nobody declared anything and no request was ever told or worked on, waits for none for long.
         WHEN r.is_service AND t.is_loaded AND (v.from_ms < m.until_ms OR t.is_short) THEN NULL
         WHEN p.first_ms IS NULL OR p.first_ms >= m.until_ms THEN 'never_used'
         -- A replica that is gone from its GPU answers nobody, unless a policy judges it.
         WHEN r.is_service AND (t.is_loaded OR v.from_ms = 0) OR (NOT r.is_interactive AND t.is_short) THEN NULL
         WHEN y.memory_mb > $held_mb AND r.is_interactive THEN 'held_memory'
         ELSE 'abandoned' END AS fixed,
    CASE WHEN p.from_ms < p.image_until_ms THEN 'image_pull' WHEN p.from_ms >= p.warm_from_ms THEN 'warm_up'
         WHEN p.attempt > 0 THEN 'restore' ELSE 'model_load' END AS starting_as
FROM parts p JOIN moments m USING (gid, from_ms)
LEFT JOIN quiet q ON q.uid = p.uid AND q.from_ms <= p.from_ms AND q.until_ms >= m.until_ms
LEFT JOIN quiet_memory y ON y.uid = p.uid AND y.hour_ms = m.hour_ms
LEFT JOIN run_facts r ON r.rid = p.rid
LEFT JOIN services_known v ON v.rid = p.rid
-- How long it rests only while it was held: a GPU stays quiet after it was freed.
CROSS JOIN LATERAL (
    SELECT least(q.until_ms, p.held_until_ms) - greatest(q.from_ms, p.held_from_ms) < $abandoned_ms AS is_short,
        coalesce(y.memory_mb > $held_mb, true) AS is_loaded
) t
