-- What runs hold at the end of the newest hour, by account, queue and QOS.
WITH latest AS (
    SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
), held AS (
    SELECT run_id, queue, gpus FROM runs WHERE started_at < $end AND (ended_at IS NULL OR ended_at > $end)
), said AS (
    SELECT coalesce(n.run_id, a.run_id) AS run_id, arg_max(a.account, a.batch) AS account,
        arg_max(a.queue, a.batch) AS queue, arg_max(a.labels->>'$.qos', a.batch) AS qos
    FROM allocations a LEFT JOIN latest n ON n.alias_run_id = a.run_id
    WHERE coalesce(n.run_id, a.run_id) IN (SELECT run_id FROM held) GROUP BY ALL
)
SELECT account, coalesce(said.queue, held.queue), qos, sum(gpus)::BIGINT
FROM held LEFT JOIN said USING (run_id) GROUP BY ALL ORDER BY ALL
