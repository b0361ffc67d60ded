-- Of each GPU in a period: its best link (a link drops its generation when idle, so that only a busy GPU's counts),
-- and the health that the driver told last.
SELECT
    node,
    gpu_uuid,
    max(pcie_width) AS width,
    max(pcie_width_max) AS width_max,
    max(pcie_generation) FILTER (WHERE utilization_ratio >= 0.5) AS generation,
    max(pcie_generation_max) AS generation_max,
    coalesce(arg_max(row_remap_pending, started_at) FILTER (WHERE row_remap_pending IS NOT NULL), false) AS pending,
    coalesce(bool_or(row_remap_failure), false) AS failure,
    arg_max(recovery_action, started_at) FILTER (WHERE recovery_action IS NOT NULL) AS action
FROM gpu_samples
WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL
GROUP BY ALL
HAVING width < width_max OR generation < generation_max OR pending OR failure OR coalesce(action, 'none') <> 'none'
ORDER BY ALL;
