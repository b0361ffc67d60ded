-- Runs that wait for GPUs at the end of the newest hour, as their scheduler would begin them. They are in its words
-- alone: `runs` has those that began. Of an array its tasks are runs.
WITH latest AS (
    SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
), told AS (
    SELECT coalesce(n.run_id, a.run_id) AS run_id, coalesce(a.attempt, 0) AS attempt, a.* EXCLUDE (run_id, attempt)
    FROM allocations a LEFT JOIN latest n ON n.alias_run_id = a.run_id
    WHERE coalesce(a.submitted_at, a.started_at) < $end AND coalesce(a.gpu_fraction, 1) > 0
        AND coalesce(a.scheduler, split_part(a.run_id, '/', 1)) NOT IN ('process', 'declared', 'cgroup')
), attempts AS (
    SELECT run_id, attempt, min(started_at) AS started_at, max(ended_at) FILTER (started_at IS NULL) AS given_up_at,
        max(requested_gpus) AS gpus, arg_max(name, batch) AS name, arg_max(queue, batch) AS queue,
        arg_max(account, batch) AS account, arg_max(labels->>'$.qos', batch) AS qos, min(submitted_at) AS submitted_at,
        max(time_limit_seconds) AS limit_seconds, arg_max(priority, batch) AS priority
    FROM told GROUP BY run_id, attempt
    QUALIFY attempt = max(attempt) OVER (PARTITION BY run_id)
)
SELECT run_id, name, account, queue, qos, gpus, ceil(limit_seconds)::BIGINT, priority, submitted_at FROM attempts w
WHERE coalesce(started_at, $end) >= $end AND given_up_at IS NULL AND gpus > 0
    AND NOT EXISTS (SELECT 1 FROM told t WHERE starts_with(t.run_id, w.run_id || '_'))
ORDER BY priority DESC NULLS LAST, submitted_at, run_id
