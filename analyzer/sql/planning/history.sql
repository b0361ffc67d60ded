-- How runs of one name ended, by their number of GPUs: completed with a known wall time, or not.
SELECT gpus, count(*) FILTER (exit_status = 'completed' AND ended_at > started_at),
    count(*) FILTER (exit_status IS NOT NULL AND exit_status <> 'completed')
FROM runs WHERE name = $name GROUP BY gpus ORDER BY gpus;

-- The newest that completed with so many GPUs.
SELECT run_id, started_at, ended_at, nodes, attempts FROM runs
WHERE name = $name AND gpus = $gpus AND exit_status = 'completed' AND ended_at > started_at
ORDER BY ended_at DESC, run_id LIMIT $most;

-- The most cores that each used at once, in the mean of ten minutes and over all of its hosts, in thousandths.
SELECT run_id, max((counts->>'$.cores_used_milli')::BIGINT) FROM run_windows
WHERE list_contains($runs::VARCHAR[], run_id) AND (counts->>'$.cores_used_milli') IS NOT NULL GROUP BY run_id
