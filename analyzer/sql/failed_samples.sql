-- One day's samples of the failed attempts, for checkpoints.sql.
CREATE OR REPLACE TEMP TABLE of_interest AS
SELECT f.rid, n.uid, s.started_at // 1000 AS from_ms, (s.ended_at - s.started_at) // 1000 AS ms, (s.ended_at - s.started_at) // 1000 AS sample_ms,
    round(1000 * coalesce(s.sm_active_ratio, s.utilization_ratio))::INTEGER AS activity, s.sm_active_ratio IS NOT NULL AS has_sm, s.pcie_transmit_bytes // 1000 AS pcie_out_kb
FROM gpu_samples s JOIN units n ON n.uuid = s.gpu_uuid
JOIN holds h ON h.uid = n.uid AND s.started_at // 1000 >= h.from_ms AND s.started_at // 1000 < h.until_ms
JOIN failed f ON f.rid = h.rid AND f.attempt = h.attempt
WHERE s.started_at >= $from_us AND s.started_at < $until_us
