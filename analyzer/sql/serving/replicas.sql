-- Each GPU of each service that has a policy, in each ten minutes: how long it was there, and how long without a kernel.
WITH there AS (
    SELECT p.rid, p.uid, p.from_ms // 600000 * 600000 AS window_ms, min(p.from_ms) AS from_ms, max(p.from_ms + p.ms) AS until_ms
    FROM pieces p SEMI JOIN service_runs r ON r.rid = p.rid
    WHERE p.fixed IS NULL AND p.up AND p.activity IS NOT NULL AND p.ms > 0 GROUP BY ALL
)
SELECT k.run_id, t.window_ms, n.node, u.uuid, m.member, t.from_ms, t.until_ms, g.ms::BIGINT, g.still_ms::BIGINT
FROM there t JOIN gpu_windows g USING (rid, uid, window_ms) JOIN run_keys k USING (rid) JOIN units u USING (uid) JOIN nodes n USING (nid)
ASOF LEFT JOIN service_members m ON m.rid = t.rid AND m.uid = t.uid AND m.from_ms < t.window_ms + 600000
ORDER BY k.run_id, t.window_ms, n.node, u.uuid;
