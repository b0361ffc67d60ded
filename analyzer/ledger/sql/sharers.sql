-- A GPU that several runs hold shows the sum of all. Where its driver tells their shares of SM time apart, one that
-- used
-- none of it stood still, whatever the others did; where it does not, each gets the GPU's state.
CREATE OR REPLACE TEMP TABLE rested AS
SELECT s.sid, p.started_at // 1000 AS from_ms, p.ended_at // 1000 AS until_ms
FROM (SELECT sid, rid, uid, from_ms, until_ms FROM slices WHERE is_shared AND rid IS NOT NULL) s
    JOIN units u USING (uid) JOIN run_names k USING (rid)
JOIN process_samples p ON p.run_id = k.run_id AND p.gpu_uuid = u.uuid AND p.started_at // 1000 < s.until_ms
    AND p.ended_at // 1000 > s.from_ms
WHERE p.started_at >= $from_us - 3600000000 AND p.started_at < $until_us AND p.started_at >= k.from_us
    AND p.started_at < k.until_us
GROUP BY ALL HAVING max(milli(p.sm_utilization_ratio)) <= $quiet_permille;

UPDATE cut_pieces SET activity = 0, utilization = 0, zero = if(zero IS NULL, NULL, 1000),
    tensor = if(tensor IS NULL, NULL, 0), dram = if(dram IS NULL, NULL, 0),
    slowed = 0, pcie_in_kb = NULL, pcie_out_kb = NULL, nvlink_kb = NULL
FROM rested r WHERE r.sid = cut_pieces.sid AND cut_pieces.from_ms >= r.from_ms AND cut_pieces.from_ms < r.until_ms
    AND cut_pieces.activity IS NOT NULL
