-- Each GPU of each service that has a policy, in each ten minutes: how long it was there, and how long without a
-- kernel.
WITH there AS (
    SELECT w.rid, w.uid, w.window_ms, min(w.from_ms) AS from_ms, max(w.until_ms) AS until_ms
    FROM work w SEMI JOIN service_runs r ON r.rid = w.rid GROUP BY ALL
)
SELECT k.run_id, t.window_ms, n.node, u.uuid, m.member, t.from_ms, t.until_ms, g.ms::BIGINT, g.still_ms::BIGINT
FROM there t JOIN gpu_windows g USING (rid, uid, window_ms) JOIN run_keys k USING (rid) JOIN units u USING (uid)
    JOIN nodes n USING (nid)
ASOF LEFT JOIN service_members m ON m.rid = t.rid AND m.uid = t.uid AND m.from_ms < t.window_ms + 600000
ORDER BY k.run_id, t.window_ms, n.node, u.uuid;
