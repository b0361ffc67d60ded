-- Minute by minute, how busy a run's GPUs and the cores that it may use were; and how often the two took turns.
WITH names AS (
    SELECT alias_run_id, run_id FROM run_aliases
    QUALIFY row_number() OVER (PARTITION BY alias_run_id ORDER BY batch DESC) = 1
), cores AS (
    SELECT node, max(cpu_cores) AS cores FROM inventory WHERE cpu_cores IS NOT NULL GROUP BY ALL
), gpus AS (
    SELECT s.run_id, g.started_at // 60000000 AS minute, avg((1000 * g.utilization_ratio)::INTEGER)::BIGINT AS gpu
    FROM {gpus} g JOIN notice_steady s ON s.gpu_uuid = g.gpu_uuid AND s.hour = g.started_at // 3600000000 * 3600000000
    WHERE g.started_at >= $start AND g.started_at < $end AND list_contains($runs, s.run_id)
        AND g.utilization_ratio IS NOT NULL
    GROUP BY ALL
), spent AS (
    SELECT coalesce(n.run_id, p.run_id) AS run_id, p.node, p.started_at // 60000000 AS minute,
        sum(p.cpu_seconds) AS cpu_seconds, sum({length}) AS seconds, max(coalesce(p.cores_allotted, c.cores)) AS cores
    FROM {runs} p LEFT JOIN names n ON n.alias_run_id = p.run_id LEFT JOIN cores c ON c.node = p.node
    WHERE p.started_at >= $start AND p.started_at < $end AND p.cpu_seconds IS NOT NULL GROUP BY ALL
), processors AS (
    SELECT run_id, minute, (1000 * sum(cpu_seconds) / sum(cores * seconds))::BIGINT AS cpu FROM spent
    WHERE list_contains($runs, run_id) GROUP BY ALL HAVING sum(cores * seconds) > 0
), labelled AS (
    SELECT run_id, minute, gpu, cpu,
        CASE WHEN cpu >= $packed_cpu_full_permille AND gpu <= $packed_gpu_quiet_permille THEN 1
            WHEN gpu >= $packed_gpu_busy_permille AND cpu < $packed_cpu_full_permille THEN 2 END AS stage
    FROM gpus JOIN processors USING (run_id, minute)
), turned AS (
    SELECT *, stage IS DISTINCT FROM lag(stage) OVER (PARTITION BY run_id ORDER BY minute) AS turns FROM labelled
        WHERE stage IS NOT NULL
)
SELECT l.run_id, any_value(r.name) AS name, any_value(r.team) AS team, count(*) AS minutes, avg(l.gpu)::BIGINT AS gpu,
    avg(l.cpu)::BIGINT AS cpu,
    count(*) FILTER (l.stage = 1) AS cpu_minutes, count(*) FILTER (l.stage = 2) AS gpu_minutes,
    (SELECT count(*) FROM turned t WHERE t.run_id = l.run_id AND t.turns) AS turns
FROM labelled l JOIN runs r ON r.run_id = l.run_id GROUP BY l.run_id ORDER BY name, l.run_id
