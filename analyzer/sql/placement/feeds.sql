-- What each run received over the network from each other host, of the flows that hosts attribute to it.
WITH latest AS (
    SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
)
SELECT coalesce(n.run_id, f.run_id) AS run, f.peer, sum(f.receive_bytes)::BIGINT AS bytes
FROM flow_samples f LEFT JOIN latest n ON n.alias_run_id = f.run_id
WHERE f.started_at >= $start AND f.started_at < $end AND NOT starts_with(f.run_id, 'unattributed/') AND f.peer <> f.node
    AND coalesce(f.transport, 'tcp') <> 'rdma_estimate'
GROUP BY ALL HAVING bytes > 0 ORDER BY ALL
