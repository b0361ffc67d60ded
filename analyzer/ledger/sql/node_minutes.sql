-- What each run's GPUs on each host did in each minute, in one pass over their samples: at work (of which checkpoints
-- are a
-- pause), and all the time that they were held.
CREATE OR REPLACE TEMP TABLE node_minutes AS
SELECT rid, nid, from_ms // 60000 * 60000 AS minute_ms,
    sum(ms) FILTER (NOT is_fixed)::BIGINT AS ms, sum(activity::BIGINT * ms) FILTER (NOT is_fixed)::BIGINT AS activity,
    sum(pcie_out_kb::BIGINT * ms // sample_ms) FILTER (NOT is_fixed AND has_sm)::BIGINT AS out_kb,
    sum(ms)::BIGINT AS measured_ms, coalesce(sum(ms) FILTER (has_sm), 0)::BIGINT AS sm_ms,
        sum(activity::BIGINT * ms)::BIGINT AS activity_ms,
        sum(ms) FILTER (activity > $active_permille)::BIGINT AS busy_ms,
    sum(utilization::BIGINT * ms) FILTER (has_phase) AS used, sum(tensor::BIGINT * ms) FILTER (has_phase) AS tensor,
        sum(dram::BIGINT * ms) FILTER (has_phase) AS dram
FROM (SELECT *, NOT is_fixed AND utilization > $active_permille AND tensor IS NOT NULL AND dram IS NOT NULL AS has_phase
    FROM pieces)
WHERE rid IS NOT NULL AND up AND activity IS NOT NULL AND ms > 0 GROUP BY ALL
