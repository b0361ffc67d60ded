-- Runs whose GPUs worked little on the whole, and whose processes told of their processor time.
WITH quiet AS (
    SELECT s.run_id, sum(s.utilization * s.ms) // sum(s.ms) AS utilization FROM notice_steady s
        JOIN runs r USING (run_id)
    WHERE s.utilization IS NOT NULL AND r.stage NOT IN ('serving', 'interactive')
    GROUP BY ALL HAVING sum(s.utilization * s.ms) BETWEEN sum(s.ms) AND sum(s.ms) * $packed_gpu_permille
)
SELECT run_id FROM quiet ORDER BY run_id;

SELECT count(*) = 0 OR (SELECT count(*) > 0 FROM notice_run_hours WHERE cpu_ms IS NOT NULL) FROM notice_steady
