-- Hosts without a GPU that reported in the last hour of the period: the ledger, which is of GPUs, knows none of them.
WITH latest AS (
    SELECT node, arg_max(rack, (started_at, batch)) AS rack, arg_max(node_group, (started_at, batch)) AS node_group,
        arg_max(cpu_cores, (started_at, batch)) AS cpu_cores,
            arg_max(host_memory_bytes, (started_at, batch)) AS memory_bytes,
        arg_max(local_nvme_bytes, (started_at, batch)) AS local_nvme_bytes
    FROM inventory WHERE gpu_uuid IS NULL GROUP BY node
), heard AS (
    SELECT node, arg_max(cpu_busy_ratio, ended_at) AS busy, arg_max(memory_used_bytes, ended_at) AS used
    FROM host_samples WHERE started_at >= $end - 3600000000 AND started_at < $end GROUP BY node
)
SELECT l.node, rack, node_group, cpu_cores, memory_bytes, local_nvme_bytes, heard.busy, heard.used
FROM latest l JOIN heard USING (node)
WHERE node NOT IN (SELECT node FROM inventory WHERE gpu_uuid IS NOT NULL)
    AND node NOT IN (SELECT node FROM ledger WHERE hour >= $start AND hour < $end)
ORDER BY node;

-- Until when open runs may hold at most what they hold, by the limit that they asked for.
WITH latest AS (
    SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
)
SELECT coalesce(n.run_id, a.run_id) AS run_id, max(a.started_at + (a.time_limit_seconds * 1000000)::BIGINT)
FROM allocations a LEFT JOIN latest n ON n.alias_run_id = a.run_id
WHERE a.started_at < $end AND coalesce(a.ended_at, $end) >= $end AND a.time_limit_seconds IS NOT NULL
GROUP BY ALL;

-- What a GPU-hour of each host came to in the period, millionths: other hosts of its kind may be of another cloud.
SELECT node, (sum(cost_micros) * 3600000 // sum(milliseconds))::BIGINT FROM ledger WHERE hour >= $start AND hour < $end
GROUP BY node HAVING count(*) = count(cost_micros) AND count(*) = count(sku) AND count(DISTINCT sku) = 1
    AND sum(milliseconds) > 0
