-- What each GPU drew, in whole millijoules, and for how long that is known. MIG instances draw what their GPU does, and
-- stay out.
CREATE OR REPLACE TEMP TABLE energy_new AS
SELECT started_at // 3600000000 * 3600000000 AS hour, node, gpu_uuid,
    amount(sum(whole(energy_joules * 1000))) AS millijoules,
    least(sum((ended_at - started_at) // 1000), 3600000)::BIGINT AS measured_ms
FROM gpu_samples
WHERE started_at >= $from_us AND started_at < $until_us AND parent_uuid IS NULL
    AND whole(energy_joules * 1000) IS NOT NULL GROUP BY ALL HAVING millijoules IS NOT NULL
