-- Hosts of the period: where they are, what they have, what stood free on average, and what is free as it ends.
WITH latest AS (
    SELECT node, arg_max(rack, (started_at, batch)) AS rack, arg_max(cpu_cores, (started_at, batch)) AS cpu_cores,
        arg_max(local_nvme_bytes, (started_at, batch)) AS local_nvme_bytes,
        arg_max(host_memory_bytes, (started_at, batch)) AS memory_bytes, arg_max(block, (started_at, batch)) AS block,
        arg_max(zone, (started_at, batch)) AS zone, arg_max(node_group, (started_at, batch)) AS node_group,
        arg_max(topology_source, (started_at, batch)) AS topology_source
    FROM inventory WHERE gpu_uuid IS NULL GROUP BY node
), chips AS (
    -- of the GPUs that the host has in the period: what it had before may be of another kind
    SELECT node, min(memory_bytes) AS gpu_memory_bytes, max(power_limit_watts) AS power_limit_watts
    FROM inventory WHERE gpu_uuid IN (SELECT gpu_uuid FROM ledger WHERE hour >= $start AND hour < $end)
        AND parent_uuid IS NULL
    GROUP BY node
), hours AS (
    SELECT node, CASE WHEN count(DISTINCT sku) = 1 AND count(*) = count(sku) THEN min(sku) END AS sku,
        min(purchase_option) AS purchase_option, count(DISTINCT gpu_uuid) AS gpus,
        count(DISTINCT hour) AS hours, sum(milliseconds)::BIGINT AS ms,
        coalesce(sum(milliseconds) FILTER (state = 'unallocated' AND cause = 'free'), 0)::BIGINT AS free_ms,
        sum(cost_micros)::BIGINT AS micros
    FROM ledger WHERE hour >= $start AND hour < $end GROUP BY node
), now AS (
    SELECT node, count(*) AS free FROM (
        SELECT node, gpu_uuid FROM ledger
        WHERE hour = (SELECT max(hour) FROM ledger WHERE hour >= $start AND hour < $end)
        GROUP BY ALL HAVING bool_and(state = 'unallocated' AND cause = 'free')) GROUP BY node
)
SELECT h.node, i.rack, h.sku, i.cpu_cores, i.local_nvme_bytes, h.gpus, h.free_ms, h.hours, i.memory_bytes, i.block,
    i.zone,
    i.node_group, i.topology_source, c.gpu_memory_bytes, c.power_limit_watts, h.purchase_option,
    coalesce(n.free, 0), NULL, NULL, h.free_ms = h.ms AND h.hours >= 24 AS always_free, h.micros, h.free_ms
FROM hours h LEFT JOIN latest i USING (node) LEFT JOIN chips c USING (node) LEFT JOIN now n USING (node) ORDER BY h.node
