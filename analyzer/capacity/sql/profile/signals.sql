-- How one signal is spread over time: by kind of GPU the value that a tenth, half, nine tenths of the time are not
-- above.
WITH told AS (
    SELECT sku, 'utilization_ratio' AS signal, utilization AS value, sum(ms)::BIGINT AS ms FROM profile_readings
        GROUP BY ALL
    UNION ALL SELECT sku, 'sm_active_ratio', sm, sum(ms)::BIGINT FROM profile_readings GROUP BY ALL
    UNION ALL SELECT sku, 'power_watts', watts, sum(ms)::BIGINT FROM profile_readings GROUP BY ALL
), upto AS (
    SELECT *, sum(ms) OVER (PARTITION BY sku, signal ORDER BY value) AS upto,
        sum(ms) OVER (PARTITION BY sku, signal) AS whole
    FROM told WHERE value IS NOT NULL
)
SELECT signal, sku, min(value) FILTER (upto * 10 >= whole), min(value) FILTER (upto * 2 >= whole),
    min(value) FILTER (upto * 10 >= whole * 9), max(value)
FROM upto GROUP BY signal, sku ORDER BY sku NULLS LAST, signal DESC;

-- In which share of the measured time no kernel ran at all.
SELECT coalesce(sum(ms) FILTER (utilization = 0), 0)::BIGINT,
    coalesce(sum(ms) FILTER (utilization IS NOT NULL), 0)::BIGINT FROM profile_readings;

-- The highest use of memory, and what such a GPU has.
SELECT s.sku, max(s.memory)::BIGINT, max(i.memory_bytes)::BIGINT FROM profile_hours s
LEFT JOIN (SELECT gpu_uuid, max(memory_bytes) AS memory_bytes FROM inventory WHERE gpu_uuid IS NOT NULL GROUP BY ALL) i
    USING (gpu_uuid)
WHERE s.memory IS NOT NULL GROUP BY s.sku ORDER BY s.sku NULLS LAST;

-- Bytes over links and to the GPUs.
SELECT sum(nvlink)::HUGEINT, sum(pcie)::HUGEINT, sum(pcie_ms)::BIGINT FROM profile_hours;

-- Energy by node group and hour: what these runs drew, as it was booked.
SELECT g.node_group, e.hour, sum(e.millijoules)::HUGEINT, sum(e.measured_ms)::BIGINT, sum(e.power_ms)::BIGINT
FROM energy_amounts e LEFT JOIN (
    SELECT node, arg_max(node_group, (started_at, batch)) AS node_group FROM inventory WHERE node_group IS NOT NULL
        GROUP BY node) g USING (node)
WHERE e.hour >= $start AND e.hour < $end AND list_contains($runs::VARCHAR[], e.run_id) GROUP BY ALL ORDER BY ALL
