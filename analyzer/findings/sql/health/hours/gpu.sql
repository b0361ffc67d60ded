-- What is known of each GPU in each hour, in whole numbers: shares in permille, memory in bytes. MIG instances stay
-- out.
CREATE OR REPLACE TEMP TABLE notice_gpu_hours (
    hour BIGINT, node VARCHAR, gpu_uuid VARCHAR, ms BIGINT, utilization BIGINT, utilization_max BIGINT, sm BIGINT,
    tensor BIGINT, dram BIGINT, fp32 BIGINT, fp64 BIGINT, memory_min BIGINT, memory_max BIGINT, width BIGINT,
        width_max BIGINT,
    generation BIGINT, generation_max BIGINT, remap_pending BOOLEAN, remap_failure BOOLEAN, recovery_action VARCHAR,
    remapped BIGINT
);

-- From the tier of hours.
INSERT INTO notice_gpu_hours BY NAME
SELECT started_at AS hour, node, gpu_uuid, measured_ms AS ms,
    round(1000 * utilization_ratio)::BIGINT AS utilization,
        round(1000 * utilization_ratio_max)::BIGINT AS utilization_max,
    round(1000 * sm_active_ratio)::BIGINT AS sm, round(1000 * tensor_active_ratio)::BIGINT AS tensor,
    round(1000 * dram_active_ratio)::BIGINT AS dram, round(1000 * fp32_active_ratio)::BIGINT AS fp32,
    round(1000 * fp64_active_ratio)::BIGINT AS fp64,
    memory_used_bytes_min AS memory_min, memory_used_bytes_max AS memory_max,
    pcie_width AS width, pcie_width_max AS width_max, pcie_generation AS generation,
        pcie_generation_max AS generation_max,
    row_remap_pending AS remap_pending, row_remap_failure AS remap_failure, recovery_action,
    coalesce(remapped_rows_corrected, 0) + coalesce(remapped_rows_uncorrected, 0) AS remapped
FROM gpu_hours WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL;

-- From samples, where nobody has rolled up yet: each figure as the tier of hours has it, but that a sample over the
-- edge of
-- an hour counts whole in the hour in which it begins.
INSERT INTO notice_gpu_hours BY NAME
WITH picked AS (
    SELECT *, (ended_at - started_at) // 1000 AS long_ms FROM gpu_samples
    WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL
)
SELECT started_at // 3600000000 * 3600000000 AS hour, node, gpu_uuid, sum(long_ms)::BIGINT AS ms,
    round(sum(round(1e6 * least(utilization_ratio, 1))::BIGINT * long_ms)
        / (1e3 * sum(long_ms) FILTER (utilization_ratio IS NOT NULL)))::BIGINT AS utilization,
    round(1000 * max(utilization_ratio))::BIGINT AS utilization_max,
    round(sum(round(1e6 * least(sm_active_ratio, 1))::BIGINT * long_ms)
        / (1e3 * sum(long_ms) FILTER (sm_active_ratio IS NOT NULL)))::BIGINT AS sm,
    round(sum(round(1e6 * least(tensor_active_ratio, 1))::BIGINT * long_ms)
        / (1e3 * sum(long_ms) FILTER (tensor_active_ratio IS NOT NULL)))::BIGINT AS tensor,
    round(sum(round(1e6 * least(dram_active_ratio, 1))::BIGINT * long_ms)
        / (1e3 * sum(long_ms) FILTER (dram_active_ratio IS NOT NULL)))::BIGINT AS dram,
    round(sum(round(1e6 * least(fp32_active_ratio, 1))::BIGINT * long_ms)
        / (1e3 * sum(long_ms) FILTER (fp32_active_ratio IS NOT NULL)))::BIGINT AS fp32,
    round(sum(round(1e6 * least(fp64_active_ratio, 1))::BIGINT * long_ms)
        / (1e3 * sum(long_ms) FILTER (fp64_active_ratio IS NOT NULL)))::BIGINT AS fp64,
    min(memory_used_bytes) AS memory_min, max(memory_used_bytes) AS memory_max,
    max(pcie_width) AS width, max(pcie_width_max) AS width_max, max(pcie_generation) AS generation,
    max(pcie_generation_max) AS generation_max,
    arg_max(row_remap_pending, started_at) FILTER (row_remap_pending IS NOT NULL) AS remap_pending,
    bool_or(row_remap_failure) AS remap_failure,
    arg_max(recovery_action, started_at) FILTER (recovery_action IS NOT NULL) AS recovery_action,
    max(coalesce(remapped_rows_corrected, 0) + coalesce(remapped_rows_uncorrected, 0)) AS remapped
FROM picked GROUP BY ALL
