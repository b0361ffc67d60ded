-- What GPUs drew by node group and hour, in whole millijoules, and for how long that is known: from the tier of hours, and
-- from samples where nobody has rolled up yet. MIG instances draw what their GPU does, and stay out.
WITH host AS (
    SELECT node, arg_max(node_group, (started_at, batch)) AS node_group FROM inventory WHERE node_group IS NOT NULL GROUP BY node
), rolled AS (
    SELECT started_at AS hour, node, gpu_uuid, round(energy_joules * 1000)::HUGEINT AS millijoules, measured_ms AS ms
    FROM gpu_hours WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL AND energy_joules IS NOT NULL
), sampled AS (
    SELECT started_at // 3600000000 * 3600000000 AS hour, node, gpu_uuid, sum(round(energy_joules * 1000)::HUGEINT) AS millijoules,
        sum((ended_at - started_at) // 1000)::BIGINT AS ms
    FROM gpu_samples WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL AND energy_joules IS NOT NULL
        AND (gpu_uuid, started_at // 3600000000 * 3600000000) NOT IN (SELECT (gpu_uuid, hour) FROM rolled)
    GROUP BY ALL
)
SELECT node_group, hour, sum(millijoules)::HUGEINT, sum(least(ms, 3600000))::BIGINT
FROM (FROM rolled UNION ALL FROM sampled) LEFT JOIN host USING (node) GROUP BY ALL ORDER BY ALL
