-- PCIe packets that each GPU sent again, where there were any: the worst hour counts, so that one bad minute of a week
-- is
-- no average of it.
SELECT node, gpu_uuid, max(replays) AS worst_hour, sum(replays)::BIGINT AS replays, count(*) AS hours FROM (
    SELECT node, gpu_uuid, started_at // 3600000000 AS hour, sum(pcie_replay_events)::BIGINT AS replays FROM gpu_samples
    WHERE started_at >= $start AND started_at < $end AND pcie_replay_events > 0 AND parent_uuid IS NULL GROUP BY ALL)
GROUP BY ALL ORDER BY ALL;

-- Every RDMA port, with the group of hosts that it may be compared with.
WITH groups AS (
    SELECT node, arg_max(node_group, (started_at, batch)) FILTER (node_group IS NOT NULL) AS node_group FROM inventory
        GROUP BY node
)
SELECT coalesce(g.node_group, 'all hosts') AS node_group, p.link_kind, p.node, p.device,
    arg_max(p.speed, p.hour) FILTER (p.speed IS NOT NULL) AS speed,
    coalesce(sum(p.errors), 0)::BIGINT AS errors, sum(p.ms)::BIGINT AS ms
FROM notice_port_hours p LEFT JOIN groups g USING (node) GROUP BY ALL ORDER BY ALL;

-- Whether any GPU told of replays at all; the newest hours say it for all.
SELECT count(pcie_replay_events) > 0 OR count(*) = 0 FROM gpu_samples WHERE started_at >= $last AND started_at < $end
