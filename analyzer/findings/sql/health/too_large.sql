-- Each run that is over, or has long been running, with what its GPUs and its processes came to while it worked alone.
-- Runs that serve or wait for a person are judged by what they promise, and stay out.
WITH names AS (
    SELECT alias_run_id, run_id FROM run_aliases
    QUALIFY row_number() OVER (PARTITION BY alias_run_id ORDER BY batch DESC) = 1
), held AS (
    SELECT run_id, sum(ms)::BIGINT AS ms, count(DISTINCT gpu_uuid) AS gpus FROM notice_holds GROUP BY ALL
), used AS (
    SELECT run_id, sum(ms)::BIGINT AS ms, sum(utilization * ms) // sum(ms)
        FILTER (utilization IS NOT NULL) AS utilization,
        sum(sm * ms) // sum(ms) FILTER (sm IS NOT NULL) AS sm, sum(tensor * ms) // sum(ms)
            FILTER (tensor IS NOT NULL) AS tensor,
        sum(dram * ms) // sum(ms) FILTER (dram IS NOT NULL) AS dram, max(memory_max) AS memory
    FROM notice_steady GROUP BY ALL
), hosts AS (
    SELECT run_id, sum(cpu_ms)::BIGINT AS cpu_ms, sum(ms)::BIGINT AS ms, max(memory_max) AS memory,
        count(DISTINCT node) AS nodes FROM (
        SELECT coalesce(n.run_id, h.told_as) AS run_id, h.node, h.hour, max(h.ms) AS ms, max(h.cpu_ms) AS cpu_ms,
            max(h.memory_max) AS memory_max
        FROM notice_run_hours h LEFT JOIN names n ON n.alias_run_id = h.told_as GROUP BY ALL)
    GROUP BY ALL
), gpus AS (
    SELECT gpu_uuid, max(sku) AS sku, max(memory_bytes) AS memory_bytes FROM inventory WHERE gpu_uuid IS NOT NULL
        GROUP BY ALL
), kinds AS (
    SELECT run_id, min(sku) AS sku, min(memory_bytes) AS memory_bytes FROM (
        SELECT DISTINCT run_id, gpu_uuid FROM notice_holds) JOIN gpus USING (gpu_uuid)
    GROUP BY run_id HAVING count(DISTINCT sku) = 1
)
SELECT r.run_id, r.name, r.team, k.sku, k.memory_bytes, h.gpus, h.ms AS held_ms, u.utilization, u.sm, u.tensor, u.dram,
    u.memory,
    CASE WHEN p.ms > 0 THEN 1000 * p.cpu_ms * p.nodes // p.ms // h.gpus END AS millicores_per_gpu,
    p.memory * p.nodes // h.gpus AS host_bytes_per_gpu
FROM held h JOIN runs r USING (run_id) JOIN used u USING (run_id) LEFT JOIN kinds k USING (run_id) LEFT
    JOIN hosts p USING (run_id)
WHERE r.stage NOT IN ('serving', 'interactive') AND u.utilization IS NOT NULL AND u.memory IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM notice_holds o JOIN inventory i ON i.parent_uuid = o.gpu_uuid
        WHERE o.run_id = r.run_id)
ORDER BY r.name, r.run_id;

-- What else there is: the kinds of GPU that the fleet owns, and their memory.
SELECT l.sku, max(i.memory_bytes) AS memory_bytes FROM (
    SELECT DISTINCT gpu_uuid, sku FROM ledger WHERE hour >= $start AND hour < $end AND sku IS NOT NULL) l
LEFT JOIN inventory i USING (gpu_uuid) GROUP BY ALL HAVING max(i.memory_bytes) IS NOT NULL ORDER BY memory_bytes, l.sku;

SELECT count(*) = 0 OR count(utilization) > 0 FROM notice_steady
