-- The fullest GPU of each run in whole hours of steady work, of those that had enough of them where any has, and how
-- runs of that name have ended out of memory.
WITH gpus AS (
    SELECT gpu_uuid, max(memory_bytes) AS memory_bytes FROM inventory WHERE gpu_uuid IS NOT NULL GROUP BY ALL
), fullest AS (
    SELECT s.run_id, s.gpu_uuid, s.node, g.memory_bytes, count(*) AS hours, max(s.memory_max) AS most,
        min(s.memory_min) AS least
    FROM notice_steady s JOIN gpus g USING (gpu_uuid)
    WHERE g.memory_bytes > 0 AND s.memory_max IS NOT NULL AND coalesce(s.utilization, 0) > 0 GROUP BY ALL
), worst AS (
    SELECT * FROM fullest
    QUALIFY row_number() OVER (
        PARTITION BY run_id ORDER BY least(hours, $hbm_hours) DESC, most * 1000 // memory_bytes DESC, gpu_uuid) = 1
), endings AS (
    SELECT name, count(*) AS failed FROM runs WHERE exit_status = 'out_of_memory' AND name IS NOT NULL GROUP BY ALL
)
SELECT r.run_id, r.name, r.team, w.node, w.gpu_uuid, w.memory_bytes, w.hours, w.most, w.least,
    coalesce(e.failed, 0) AS failed
FROM worst w JOIN runs r USING (run_id) LEFT JOIN endings e USING (name)
WHERE r.stage NOT IN ('serving', 'interactive') ORDER BY r.name, r.run_id;

SELECT (SELECT count(*) = 0 OR count(memory_max) > 0 FROM notice_steady),
    (SELECT count(*) > 0 FROM inventory WHERE memory_bytes > 0) OR (SELECT count(*) = 0 FROM notice_steady)
