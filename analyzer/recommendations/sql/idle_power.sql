-- What hosts drew at their GPUs while all of them stood free, in watts: the mean of joules over time, by host.
SELECT node, sum(energy_joules)
    / (sum(ended_at - started_at) FILTER (energy_joules IS NOT NULL) / 1e6 / count(DISTINCT gpu_uuid)) AS watts
FROM gpu_samples WHERE started_at >= $start AND started_at < $end AND list_contains($nodes, node)
    AND parent_uuid IS NULL
GROUP BY node HAVING watts IS NOT NULL ORDER BY node
