-- How runs of one name ended, by their kind and number of GPUs and by whether they were on one host: completed with
-- a known wall time, or not. Runs on several kinds, or on one that nobody told, are of kind NULL.
SELECT sku, gpus, nodes > 1 AS is_spread, count(*) FILTER (exit_status = 'completed' AND ended_at > started_at),
    count(*) FILTER (exit_status IS NOT NULL AND exit_status <> 'completed')
FROM runs WHERE name = $name GROUP BY ALL ORDER BY ALL;

-- The newest that completed with so many GPUs of that kind: on one host, a gang on several.
SELECT run_id, started_at, ended_at, attempts, racks FROM runs
WHERE name = $name AND gpus = $gpus AND sku IS NOT DISTINCT FROM $sku AND (nodes > 1) = $spread
    AND exit_status = 'completed' AND ended_at > started_at
ORDER BY ended_at DESC, run_id LIMIT $most;

-- The most cores that each used at once, in the mean of ten minutes, in thousandths.
SELECT run_id, max((counts->>'$.cores_used_milli')::BIGINT) FROM run_windows
WHERE list_contains($runs::VARCHAR[], run_id) AND (counts->>'$.cores_used_milli') IS NOT NULL GROUP BY run_id;

-- How many GPUs the largest host has: a job of more runs on several.
SELECT max(gpus) FROM (SELECT count(DISTINCT gpu_uuid) AS gpus FROM inventory WHERE gpu_uuid IS NOT NULL GROUP BY node)
