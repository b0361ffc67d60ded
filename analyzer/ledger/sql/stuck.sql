-- Readings of PCIe that never move while the GPU does nothing are no traffic (seen: a flat 1.7 GB/s at 25 W): they are
-- passed over in the hour, and said to be so. Each hour is told by its own samples.

CREATE OR REPLACE TEMP TABLE stuck AS
SELECT uid, from_ms // 3600000 * 3600000 AS hour_ms, max(pcie_in_kb * 1000 // sample_ms)::BIGINT AS bytes_a_millisecond
FROM narrow
WHERE up AND activity <= $quiet_permille AND pcie_in_kb IS NOT NULL AND sample_ms > 0 AND until_ms > from_ms
GROUP BY ALL
HAVING sum(until_ms - from_ms) >= $quiet_ms AND count(*) >= 10
    AND min(pcie_in_kb * 1000 // sample_ms) >= $stuck_kb_per_ms * 1000
    AND min(pcie_in_kb * 1000 // sample_ms) * 100 >= max(pcie_in_kb * 1000 // sample_ms) * 99;

-- only with stuck
UPDATE narrow SET pcie_in_kb = NULL, pcie_out_kb = NULL FROM stuck s
WHERE s.uid = narrow.uid AND s.hour_ms = narrow.from_ms // 3600000 * 3600000;

-- only with not_evaluated
DELETE FROM not_evaluated WHERE rule = 'PCIe traffic' AND hour >= $from_us AND hour < $until_us
    AND (subject, hour // 1000) IN (SELECT (n.node, c.hour_ms) FROM chunk c JOIN units u USING (gid)
        JOIN nodes n USING (nid));

-- only with stuck
INSERT INTO not_evaluated
SELECT DISTINCT s.hour_ms * 1000, n.node, 'PCIe traffic',
    'a sensor that is not broken: the PCIe reading of a GPU never moves while it is idle'
FROM stuck s JOIN units u USING (uid) JOIN nodes n USING (nid) JOIN chunk c ON c.gid = u.gid AND c.hour_ms = s.hour_ms
