-- The same of hours whose samples are gone: divided by time.
CREATE OR REPLACE TEMP TABLE energy_new AS
WITH rest AS (
    SELECT started_at AS hour, node, gpu_uuid, sum(whole(energy_joules * 1000)) AS millijoules,
        sum(least(measured_ms, 3600000))::HUGEINT AS ms
    FROM gpu_hours
    WHERE started_at >= $from_us AND started_at < $until_us AND parent_uuid IS NULL
        AND whole(energy_joules * 1000) IS NOT NULL GROUP BY ALL
)
SELECT hour, node, gpu_uuid, run_id, amount(energy_part(millijoules, upto, s.ms, whole_ms)) AS millijoules,
    amount(energy_part(r.ms, upto, s.ms, whole_ms)) AS measured_ms,
    0::BIGINT AS power_ms
FROM rest r LEFT JOIN energy_shares s USING (hour, gpu_uuid)
WHERE amount(energy_part(millijoules, upto, s.ms, whole_ms)) IS NOT NULL
