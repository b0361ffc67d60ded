-- What open runs hold and what runs that wait ask for, by account, queue and QOS, at the end of the newest hour. A run
-- that waits is in its scheduler's words alone, `runs` has those that began; of an array its tasks are runs.
WITH latest AS (
    SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
), told AS (
    SELECT coalesce(n.run_id, a.run_id) AS run_id, coalesce(a.attempt, 0) AS attempt, a.started_at, a.ended_at,
        a.requested_gpus, a.queue, a.account, a.labels->>'$.qos' AS qos, a.batch
    FROM allocations a LEFT JOIN latest n ON n.alias_run_id = a.run_id
    WHERE coalesce(a.submitted_at, a.started_at) < $end AND coalesce(a.gpu_fraction, 1) > 0
        AND coalesce(a.scheduler, split_part(a.run_id, '/', 1)) NOT IN ('process', 'declared', 'cgroup')
), attempts AS (
    SELECT run_id, attempt, min(started_at) AS started_at, max(ended_at) FILTER (started_at IS NULL) AS given_up_at,
        max(requested_gpus) AS gpus, arg_max(queue, batch) AS queue, arg_max(account, batch) AS account,
        arg_max(qos, batch) AS qos
    FROM told GROUP BY run_id, attempt
    QUALIFY attempt = max(attempt) OVER (PARTITION BY run_id)
), open AS (
    SELECT account, queue, qos, gpus, true AS waits FROM attempts w
    WHERE coalesce(started_at, $end) >= $end AND given_up_at IS NULL AND gpus > 0
        AND NOT EXISTS (SELECT 1 FROM told t WHERE starts_with(t.run_id, w.run_id || '_'))
    UNION ALL
    SELECT a.account, coalesce(a.queue, r.queue), a.qos, r.gpus, false
    FROM runs r LEFT JOIN attempts a USING (run_id)
    WHERE r.started_at < $end AND (r.ended_at IS NULL OR r.ended_at > $end)
)
SELECT account, queue, qos, coalesce(sum(gpus) FILTER (NOT waits), 0)::BIGINT,
    coalesce(sum(gpus) FILTER (waits), 0)::BIGINT, count(*) FILTER (waits)
FROM open GROUP BY ALL ORDER BY ALL
