-- Samples cut by slices. Most hours of a unit are one slice, and need no cutting: those are looked up, and not written
-- again.
CREATE OR REPLACE TEMP TABLE whole_hours AS
SELECT uid * (($until_us - $from_us) // 3600000000 + 3) + hour_ms // 3600000 - $from_us // 3600000000 + 1 AS unit_hour,
    sid, rid, nid, fixed IS NOT NULL AS is_fixed, until_ms
FROM slices WHERE until_ms - from_ms = 3600000 AND NOT is_shared
QUALIFY count(*) OVER (PARTITION BY uid, hour_ms) = 1;

-- The hours of units in which samples need cutting, or may cross the end of the hour.
CREATE OR REPLACE TEMP TABLE odd_hours AS
WITH hours AS (
    SELECT unit_hour, min(from_ms) AS from_ms, max(until_ms) AS until_ms,
        max(from_ms) // 3600000 * 3600000 + 3600000 AS end_ms FROM halves GROUP BY unit_hour
    UNION ALL
    SELECT unit_hour, min(from_ms), max(until_ms), max(from_ms) // 3600000 * 3600000 + 3600000 FROM narrow SEMI
        JOIN overlapping USING (uid) GROUP BY unit_hour
)
SELECT h.unit_hour, max(h.end_ms) AS end_ms, w.unit_hour IS NULL AS is_cut
FROM hours h LEFT JOIN whole_hours w USING (unit_hour)
WHERE h.until_ms > $first_ms AND h.from_ms < $last_ms AND (h.until_ms > h.end_ms OR w.unit_hour IS NULL) GROUP BY ALL;

-- A sample that crosses the end of an hour is listed for each.
-- only with odd_hours
CREATE OR REPLACE TEMP TABLE cut_pieces AS
WITH crossing AS (
    SELECT n.*, o.is_cut FROM narrow n JOIN odd_hours o USING (unit_hour) WHERE n.until_ms > o.end_ms
), hourly AS (
    SELECT *, from_ms // 3600000 * 3600000 AS hour_ms FROM narrow SEMI JOIN (FROM odd_hours WHERE is_cut)
        USING (unit_hour) WHERE until_ms > from_ms
    UNION ALL
    SELECT * EXCLUDE is_cut, from_ms // 3600000 * 3600000 FROM crossing WHERE NOT is_cut
    UNION ALL
    SELECT * EXCLUDE is_cut, unnest(range(from_ms // 3600000 * 3600000 + 3600000, until_ms, 3600000)) FROM crossing
)
SELECT s.sid, s.rid, s.nid, s.fixed IS NOT NULL AS is_fixed, greatest(n.from_ms, s.from_ms) AS from_ms,
    (least(n.until_ms, s.until_ms) - greatest(n.from_ms, s.from_ms))::INTEGER AS ms,
    n.sample_ms,
    n.up, n.activity, n.has_sm, n.utilization, n.zero, n.tensor, n.dram, n.power, n.slowed, n.slowed_by, n.pcie_in_kb,
        n.pcie_out_kb, n.nvlink_kb, n.spins
FROM hourly n JOIN slices s ON s.uid = n.uid AND s.hour_ms = n.hour_ms AND s.from_ms < n.until_ms
    AND n.from_ms < s.until_ms;

CREATE OR REPLACE TEMP VIEW pieces AS
SELECT w.sid, w.rid, w.nid, w.is_fixed, n.from_ms, (n.until_ms - n.from_ms)::INTEGER AS ms, n.sample_ms, n.up,
    n.activity, n.has_sm, n.utilization, n.zero, n.tensor, n.dram, n.power,
    n.slowed, n.slowed_by, n.pcie_in_kb, n.pcie_out_kb, n.nvlink_kb, n.spins
FROM narrow n JOIN whole_hours w USING (unit_hour) WHERE n.until_ms > n.from_ms AND n.until_ms <= w.until_ms
UNION ALL FROM cut_pieces
