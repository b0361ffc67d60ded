-- How one signal is spread over time: by kind of GPU the value that a tenth, half, nine tenths of the time are not above.
WITH told AS (
    SELECT sku, 'utilization_ratio' AS signal, utilization AS value, sum(ms)::BIGINT AS ms FROM profile_samples GROUP BY ALL
    UNION ALL SELECT sku, 'sm_active_ratio', sm, sum(ms)::BIGINT FROM profile_samples GROUP BY ALL
    UNION ALL SELECT sku, 'power_watts', watts, sum(ms)::BIGINT FROM profile_samples GROUP BY ALL
), upto AS (
    SELECT *, sum(ms) OVER (PARTITION BY sku, signal ORDER BY value) AS upto, sum(ms) OVER (PARTITION BY sku, signal) AS whole
    FROM told WHERE value IS NOT NULL
)
SELECT signal, sku, min(value) FILTER (upto * 10 >= whole), min(value) FILTER (upto * 2 >= whole), min(value) FILTER (upto * 10 >= whole * 9), max(value)
FROM upto GROUP BY signal, sku ORDER BY sku NULLS LAST, signal DESC;

-- In which share of the measured time no kernel ran at all.
SELECT coalesce(sum(ms) FILTER (utilization = 0), 0)::BIGINT, coalesce(sum(ms) FILTER (utilization IS NOT NULL), 0)::BIGINT FROM profile_samples;

-- The highest use of memory, and what such a GPU has.
SELECT s.sku, max(s.memory)::BIGINT, max(i.memory_bytes)::BIGINT
FROM (SELECT sku, gpu_uuid, max(memory) AS memory FROM profile_samples WHERE memory IS NOT NULL GROUP BY ALL) s
LEFT JOIN (SELECT gpu_uuid, max(memory_bytes) AS memory_bytes FROM inventory WHERE gpu_uuid IS NOT NULL GROUP BY ALL) i USING (gpu_uuid)
GROUP BY s.sku ORDER BY s.sku NULLS LAST;

-- Energy: of an hour in which others had a part of the GPU, these runs' part of it.
SELECT sum(millijoules * least(held_ms, ms) // ms)::HUGEINT // 1000 FROM (
    SELECT gpu_uuid, hour, any_value(held_ms) AS held_ms, sum(ms) AS ms, sum(millijoules)::HUGEINT AS millijoules
    FROM profile_samples WHERE millijoules IS NOT NULL GROUP BY ALL);

SELECT sum(nvlink)::HUGEINT, sum(pcie)::HUGEINT, sum(ms) FILTER (pcie IS NOT NULL)::BIGINT FROM profile_samples
