-- One day's minutes of the failed attempts, for checkpoints.sql, and which of them worked at all.
CREATE OR REPLACE TEMP TABLE failed_told AS
SELECT f.rid, f.attempt, n.nid, s.started_at // 60000000 * 60000 AS minute_ms,
    (s.ended_at - s.started_at) // 1000 AS ms, milli(coalesce(s.sm_active_ratio, s.utilization_ratio)) AS activity,
    s.sm_active_ratio IS NOT NULL AS has_sm, s.pcie_transmit_bytes // 1000 AS out_kb,
    r.gpus, r.gpus > 1 AND spins(s.utilization_ratio, s.sm_active_ratio, s.tensor_active_ratio, s.dram_active_ratio,
        s.memory_utilization_ratio, s.power_watts, n.power_limit_watts,
        coalesce(s.nvlink_receive_bytes, 0) + coalesce(s.nvlink_transmit_bytes, 0), s.ended_at - s.started_at) AS waits
FROM gpu_samples s JOIN units n ON n.uuid = s.gpu_uuid
JOIN holds h ON h.uid = n.uid AND s.started_at // 1000 >= h.from_ms AND s.started_at // 1000 < h.until_ms
JOIN failed f ON f.rid = h.rid AND f.attempt = h.attempt JOIN run_summary r ON r.rid = f.rid
WHERE s.started_at >= $from_us AND s.started_at < $until_us;

CREATE OR REPLACE TEMP TABLE node_minutes AS
SELECT rid, nid, minute_ms, sum(ms)::BIGINT AS ms, sum(activity * ms)::BIGINT AS activity,
    sum(out_kb) FILTER (has_sm)::BIGINT AS out_kb
FROM failed_told WHERE activity IS NOT NULL AND ms > 0 GROUP BY ALL;

INSERT INTO worked
SELECT rid, attempt FROM failed_told WHERE activity > $active_permille AND NOT waits
GROUP BY rid, attempt HAVING sum(ms) >= $begun_work_ms * max(gpus)
