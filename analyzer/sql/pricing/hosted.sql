-- Hosts that were owned in an hour, as far as the ledger has it, with their cores and memory; null where one is not told.
WITH host AS (
    SELECT node, arg_max(node_group, (started_at, batch)) FILTER (node_group IS NOT NULL) AS node_group,
        arg_max(cpu_cores, (started_at, batch)) FILTER (cpu_cores IS NOT NULL) AS cores,
        arg_max(host_memory_bytes, (started_at, batch)) FILTER (host_memory_bytes IS NOT NULL) AS memory_bytes
    FROM inventory GROUP BY node
), owned AS (
    SELECT DISTINCT hour, node FROM ledger WHERE hour >= $start AND hour < $end
)
SELECT node_group, hour, count(*),
    CASE WHEN count(cores) = count(*) THEN sum(cores)::BIGINT END,
    CASE WHEN count(memory_bytes) = count(*) THEN sum(memory_bytes)::HUGEINT END
FROM owned LEFT JOIN host USING (node) GROUP BY ALL ORDER BY ALL
