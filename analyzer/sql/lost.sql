-- Attempts that ended in failure, and the last checkpoint that was seen before: work after it is lost.

CREATE OR REPLACE TEMP TABLE failed AS
SELECT rid, attempt, min(from_ms) AS from_ms, max(until_ms) AS until_ms,
    CASE max(exit_status) WHEN 'preempted' THEN 'preempted' WHEN 'node_failed' THEN 'node_failed' ELSE 'failed' END AS lost_cause
FROM holds WHERE ended AND exit_status IN ('failed', 'timeout', 'out_of_memory', 'preempted', 'node_failed')
GROUP BY rid, attempt HAVING max(until_ms) > $from_ms AND min(from_ms) < $until_ms;

CREATE OR REPLACE TEMP TABLE of_interest AS
SELECT f.rid, n.uid, s.started_at // 1000 AS from_ms, (s.ended_at - s.started_at) // 1000 AS ms, (s.ended_at - s.started_at) // 1000 AS sample_ms,
    round(1000 * coalesce(s.sm_active_ratio, s.utilization_ratio))::SMALLINT AS activity, s.pcie_transmit_bytes // 1000 AS pcie_out_kb
FROM gpu_samples s JOIN units n ON n.uuid = s.gpu_uuid
JOIN holds h ON h.uid = n.uid AND s.started_at // 1000 >= h.from_ms AND s.started_at // 1000 < h.until_ms
JOIN failed f ON f.rid = h.rid AND f.attempt = h.attempt
WHERE s.started_at >= (SELECT min(from_ms) * 1000 FROM failed) AND s.started_at < (SELECT max(until_ms) * 1000 FROM failed)
