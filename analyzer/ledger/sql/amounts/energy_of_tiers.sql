-- The same of hours whose samples are gone.
CREATE OR REPLACE TEMP TABLE energy_new AS
SELECT started_at AS hour, node, gpu_uuid, amount(sum(whole(energy_joules * 1000))) AS millijoules,
    amount(sum(least(measured_ms, 3600000))) AS measured_ms
FROM gpu_hours
WHERE started_at >= $from_us AND started_at < $until_us AND parent_uuid IS NULL
    AND whole(energy_joules * 1000) IS NOT NULL GROUP BY ALL HAVING millijoules IS NOT NULL
