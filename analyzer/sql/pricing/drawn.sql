-- What each GPU drew in each hour, in whole millijoules, and for how long that is known. MIG instances draw what their GPU
-- does, and stay out. The second statement reads the tier of hours, the third samples where nobody has rolled up yet. With
-- $run it is of the GPUs alone that this run held at any time.
CREATE OR REPLACE TEMP TABLE pricing_drawn (hour BIGINT, node VARCHAR, gpu_uuid VARCHAR, millijoules HUGEINT, ms BIGINT);

INSERT INTO pricing_drawn BY NAME
SELECT started_at AS hour, node, gpu_uuid, sum(round(energy_joules * 1000)::HUGEINT) AS millijoules,
    sum(least(measured_ms, 3600000))::BIGINT AS ms
FROM gpu_hours
WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL AND energy_joules IS NOT NULL
    AND ($run IS NULL OR gpu_uuid IN (SELECT gpu_uuid FROM ledger WHERE run_id = $run AND hour >= $start AND hour < $end))
GROUP BY ALL;

INSERT INTO pricing_drawn BY NAME
SELECT started_at // 3600000000 * 3600000000 AS hour, node, gpu_uuid, sum(round(energy_joules * 1000)::HUGEINT) AS millijoules,
    least(sum((ended_at - started_at) // 1000), 3600000)::BIGINT AS ms
FROM gpu_samples
WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL AND energy_joules IS NOT NULL
    AND ($run IS NULL OR gpu_uuid IN (SELECT gpu_uuid FROM ledger WHERE run_id = $run AND hour >= $start AND hour < $end))
GROUP BY ALL
