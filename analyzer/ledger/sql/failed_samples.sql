-- One day's minutes of the failed attempts, for checkpoints.sql.
CREATE OR REPLACE TEMP TABLE node_minutes AS
WITH told AS (
    SELECT f.rid, n.nid, s.started_at // 60000000 * 60000 AS minute_ms, (s.ended_at - s.started_at) // 1000 AS ms,
        milli(coalesce(s.sm_active_ratio, s.utilization_ratio)) AS activity,
            s.sm_active_ratio IS NOT NULL AS has_sm, s.pcie_transmit_bytes // 1000 AS out_kb
    FROM gpu_samples s JOIN units n ON n.uuid = s.gpu_uuid
    JOIN holds h ON h.uid = n.uid AND s.started_at // 1000 >= h.from_ms AND s.started_at // 1000 < h.until_ms
    JOIN failed f ON f.rid = h.rid AND f.attempt = h.attempt
    WHERE s.started_at >= $from_us AND s.started_at < $until_us
)
SELECT rid, nid, minute_ms, sum(ms)::BIGINT AS ms, sum(activity * ms)::BIGINT AS activity,
    sum(out_kb) FILTER (has_sm)::BIGINT AS out_kb
FROM told WHERE activity IS NOT NULL AND ms > 0 GROUP BY ALL
