-- What stands where: of each host the last word on each part of its place, and its GPUs in the ledger's newest hour.
WITH booked AS (
    SELECT node, count(DISTINCT gpu_uuid) AS gpus, min(sku) AS sku FROM ledger
    WHERE hour = (SELECT max(hour) FROM ledger_hours) GROUP BY node
), told AS (
    SELECT node, arg_max(region, (started_at, batch)) AS region, arg_max(zone, (started_at, batch)) AS zone,
        arg_max(block, (started_at, batch)) AS block, arg_max(rack, (started_at, batch)) AS rack,
        arg_max(node_group, (started_at, batch)) AS node_group,
        arg_max(topology_source, (started_at, batch)) AS topology_source,
        arg_max(cpu_cores, (started_at, batch)) AS cpu_cores,
        arg_max(host_memory_bytes, (started_at, batch)) AS host_memory_bytes,
        arg_max(local_nvme_bytes, (started_at, batch)) AS local_nvme_bytes
    FROM inventory WHERE gpu_uuid IS NULL GROUP BY node
), chips AS (
    SELECT node, min(memory_bytes) AS gpu_memory_bytes FROM inventory
    WHERE gpu_uuid IS NOT NULL AND parent_uuid IS NULL GROUP BY node
)
SELECT b.node, t.region, t.zone, t.block, t.rack, t.node_group, t.topology_source, b.sku, b.gpus, c.gpu_memory_bytes,
    t.cpu_cores, t.host_memory_bytes, t.local_nvme_bytes
FROM booked b LEFT JOIN told t USING (node) LEFT JOIN chips c USING (node) ORDER BY b.node
