-- How active each GPU was in each hour; MIG instances count for their GPU.
CREATE OR REPLACE TEMP TABLE activity_new AS
SELECT started_at // 3600000000 * 3600000000 AS hour, node, coalesce(parent_uuid, gpu_uuid) AS gpu_uuid,
    amount(sum((ended_at - started_at) // 1000)) AS measured_ms,
    amount(sum(whole(1000 * coalesce(sm_active_ratio, utilization_ratio))
        * ((ended_at - started_at) // 1000))) AS active_permille_ms
FROM gpu_samples
WHERE started_at >= $from_us AND started_at < $until_us
    AND whole(1000 * coalesce(sm_active_ratio, utilization_ratio)) IS NOT NULL
GROUP BY ALL HAVING measured_ms > 0 AND active_permille_ms IS NOT NULL
