-- The same of hours whose samples are gone.
CREATE OR REPLACE TEMP TABLE activity_new AS
SELECT started_at AS hour, node, coalesce(parent_uuid, gpu_uuid) AS gpu_uuid, amount(sum(measured_ms)) AS measured_ms,
    amount(sum(whole(1000 * coalesce(sm_active_ratio, utilization_ratio)) * measured_ms)) AS active_permille_ms
FROM gpu_hours
WHERE started_at >= $from_us AND started_at < $until_us
    AND whole(1000 * coalesce(sm_active_ratio, utilization_ratio)) IS NOT NULL
GROUP BY ALL HAVING measured_ms > 0 AND active_permille_ms IS NOT NULL
