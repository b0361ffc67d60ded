-- Hosts that were owned in an hour, as far as the ledger has it, with their cores and memory; null where one is not
-- told.
SELECT h.node_group, o.hour, count(*),
    CASE WHEN count(h.cpu_cores) = count(*) THEN sum(h.cpu_cores)::BIGINT END,
    CASE WHEN count(h.host_memory_bytes) = count(*) THEN sum(h.host_memory_bytes)::HUGEINT END
FROM (SELECT DISTINCT hour, node FROM ledger WHERE hour >= $start AND hour < $end) o {placed o} GROUP BY ALL
    ORDER BY ALL
