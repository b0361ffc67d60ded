-- What GPUs drew by node group and hour, in whole millijoules, and for how long that is known. MIG instances draw what their
-- GPU does, and stay out. The first reads the tier of hours, the second samples where nobody has rolled up yet.
WITH host AS (
    SELECT node, arg_max(node_group, (started_at, batch)) AS node_group FROM inventory WHERE node_group IS NOT NULL GROUP BY node
)
SELECT node_group, started_at AS hour, sum(round(energy_joules * 1000)::HUGEINT)::HUGEINT, sum(least(measured_ms, 3600000))::BIGINT
FROM gpu_hours LEFT JOIN host USING (node)
WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL AND energy_joules IS NOT NULL
GROUP BY ALL ORDER BY ALL;

WITH host AS (
    SELECT node, arg_max(node_group, (started_at, batch)) AS node_group FROM inventory WHERE node_group IS NOT NULL GROUP BY node
), drawn AS (
    SELECT started_at // 3600000000 * 3600000000 AS hour, node, gpu_uuid, sum(round(energy_joules * 1000)::HUGEINT) AS millijoules,
        sum((ended_at - started_at) // 1000)::BIGINT AS ms
    FROM gpu_samples
    WHERE started_at >= $start AND started_at < $end AND parent_uuid IS NULL AND energy_joules IS NOT NULL GROUP BY ALL
)
SELECT node_group, hour, sum(millijoules)::HUGEINT, sum(least(ms, 3600000))::BIGINT
FROM drawn LEFT JOIN host USING (node) GROUP BY ALL ORDER BY ALL
