-- Of each GPU in a period: its best link (a link drops its generation when idle, so that only hours in which the GPU
-- was
-- busy count), and the health that the driver told last.
SELECT
    node,
    gpu_uuid,
    max(width) AS width,
    max(width_max) AS width_max,
    max(generation) FILTER (WHERE utilization_max >= 500) AS generation,
    max(generation_max) AS generation_max,
    coalesce(arg_max(remap_pending, hour) FILTER (WHERE remap_pending IS NOT NULL), false) AS pending,
    coalesce(bool_or(remap_failure), false) AS failure,
    arg_max(recovery_action, hour) FILTER (WHERE recovery_action IS NOT NULL) AS action
FROM notice_gpu_hours
GROUP BY ALL
ORDER BY ALL;
