-- Samples cut by slices. A sample that crosses an hour is listed for each; nearly all cross none.
CREATE OR REPLACE TEMP TABLE pieces AS
WITH hourly AS (
    SELECT *, from_ms // 3600000 * 3600000 AS hour_ms FROM narrow WHERE until_ms > from_ms
    UNION ALL
    SELECT *, unnest(range(from_ms // 3600000 * 3600000 + 3600000, until_ms, 3600000)) FROM narrow
    WHERE (until_ms - 1) // 3600000 > from_ms // 3600000
)
SELECT s.sid, s.rid, s.nid, s.fixed, greatest(n.from_ms, s.from_ms) AS from_ms,
    (least(n.until_ms, s.until_ms) - greatest(n.from_ms, s.from_ms))::INTEGER AS ms,
    n.sample_ms,
    n.uid, n.up, n.activity, n.has_sm, n.utilization, n.zero, n.tensor, n.dram, n.power, n.slowed, n.slowed_by, n.pcie_in_kb, n.pcie_out_kb, n.nvlink_kb
FROM hourly n JOIN slices s ON s.uid = n.uid AND s.hour_ms = n.hour_ms AND s.from_ms < n.until_ms AND n.from_ms < s.until_ms
