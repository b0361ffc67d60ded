-- Time of each owned GPU cut wherever its holders, its owner, its scheduler's word or its quiet changes, and at each
-- hour.

CREATE OR REPLACE TEMP TABLE owned_hours AS
SELECT o.gid, h.hour_ms, greatest(o.from_ms, h.hour_ms) AS from_ms, least(o.until_ms, h.hour_ms + 3600000) AS until_ms,
    o.sku, o.purchase_option
FROM owned o JOIN chunk h ON h.gid = o.gid AND o.from_ms < h.hour_ms + 3600000 AND o.until_ms > h.hour_ms;

-- Holds of the chunk with what bounds their states: the end of starting, and where lost work begins.
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
CREATE OR REPLACE TEMP TABLE holders AS
WITH candidates AS (
    SELECT m.gid, m.from_ms, h.uid, h.rid, h.attempt, h.precedence, h.from_ms AS held_from_ms,
        h.until_ms AS held_until_ms, h.started_ms, h.first_ms, h.image_until_ms,
        h.warm_from_ms,
        h.lost_from_ms IS NOT NULL AND h.lost_from_ms <= m.from_ms AS is_lost, h.lost_cause
    FROM moments m JOIN holds_here h ON h.gid = m.gid AND h.from_ms <= m.from_ms AND h.until_ms >= m.until_ms
), trusted AS (
    SELECT * FROM candidates
    QUALIFY precedence = min(precedence) OVER (PARTITION BY gid, from_ms, uid)
        AND row_number() OVER (PARTITION BY gid, from_ms, uid, rid ORDER BY precedence, attempt DESC, started_ms) = 1
)
SELECT *, count(*) OVER (PARTITION BY gid, from_ms, uid) AS sharers FROM trusted;

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
        greatest(1, 840 * coalesce(u.slices, 1) // h.sharers) AS weight,
        h.sharers > 1 AS is_shared,
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
CREATE OR REPLACE TEMP TABLE services_known AS
WITH known AS (
    SELECT sid, 0 AS at_ms FROM service_runs WHERE is_declared
    UNION ALL SELECT r.sid, s.first_ms FROM serving_runs s JOIN service_runs r USING (rid)
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
         WHEN r.is_service AND coalesce(y.memory_mb > $held_mb, true) AND (v.from_ms < m.until_ms
             OR least(q.until_ms, p.held_until_ms) - greatest(q.from_ms, p.held_from_ms) < $abandoned_ms) THEN NULL
         WHEN p.first_ms IS NULL OR p.first_ms >= m.until_ms THEN 'never_used'
         -- Only while it was held: a GPU stays quiet after it was freed.
         WHEN r.is_service OR (NOT r.is_interactive AND least(q.until_ms, p.held_until_ms)
             - greatest(q.from_ms, p.held_from_ms) < $abandoned_ms) THEN NULL
         WHEN y.memory_mb > $held_mb AND r.is_interactive THEN 'held_memory'
         ELSE 'abandoned' END AS fixed,
    CASE WHEN p.from_ms < p.image_until_ms THEN 'image_pull' WHEN p.from_ms >= p.warm_from_ms THEN 'warm_up'
         WHEN p.attempt > 0 THEN 'restore' ELSE 'model_load' END AS starting_as
FROM parts p JOIN moments m USING (gid, from_ms)
LEFT JOIN quiet q ON q.uid = p.uid AND q.from_ms <= p.from_ms AND q.until_ms >= m.until_ms
LEFT JOIN quiet_memory y ON y.uid = p.uid AND y.hour_ms = m.hour_ms
LEFT JOIN run_facts r ON r.rid = p.rid
LEFT JOIN services_known v ON v.rid = p.rid
