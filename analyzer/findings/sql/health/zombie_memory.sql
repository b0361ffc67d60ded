-- Hours in which a GPU's memory was never empty, and how long nobody held it meanwhile: no run and no known process.
-- A context alone is little memory; where the GPU computes, any is somebody's: in hours that were all nobody's, for in
-- others it was the run's.
-- GPUs that are cut into MIG instances stay out: what is in use there is the instances'.
WITH unheld AS (
    SELECT hour, gpu_uuid, sum(milliseconds)::BIGINT AS ms FROM ledger
    WHERE hour >= $start AND hour < $end AND run_id IS NULL AND state = 'unallocated' GROUP BY ALL
)
SELECT g.node, g.gpu_uuid, sum(u.ms)::BIGINT AS ms,
    min(if(g.memory_min >= $zombie_bytes, g.memory_min, g.memory_max)) AS bytes, max(g.utilization_max) AS utilization,
    min(g.hour) AS first_hour, min(g.utilization) AS worked
FROM notice_gpu_hours g JOIN unheld u USING (hour, gpu_uuid)
WHERE (g.memory_min >= $zombie_bytes OR g.memory_min > 0 AND u.ms >= g.ms
        AND g.utilization >= $zombie_utilization_permille)
    AND g.ms >= 3000000
    AND g.gpu_uuid NOT IN (SELECT parent_uuid FROM inventory WHERE parent_uuid IS NOT NULL)
GROUP BY ALL ORDER BY ALL;

SELECT count(*) FILTER (memory_min IS NOT NULL) > 0 OR count(*) = 0 FROM notice_gpu_hours
