-- Whether processes of several names were seen on one GPU in one hour: what follows takes long to plan.
SELECT count(*) > 0 FROM (
    SELECT 1 FROM notice_process_hours GROUP BY hour, gpu_uuid HAVING min(told_as) <> max(told_as)
);

-- What others' processes did on a GPU while a run held it by a better word than theirs, beside processes of its own.
-- Whom the same scheduler put there shares it, on the host too where it knows no GPU; of a run whose own processes are
-- not seen there, those of others may be the run itself by another name.
WITH names AS (
    SELECT alias_run_id, run_id FROM run_aliases
    QUALIFY row_number() OVER (PARTITION BY alias_run_id ORDER BY batch DESC) = 1
), known AS (
    SELECT coalesce(n.run_id, a.run_id) AS run_id, a.node, a.gpu_uuid, a.started_at AS from_us,
        coalesce(a.ended_at, $end) AS until_us,
        CASE coalesce(a.scheduler, split_part(a.run_id, '/', 1))
            WHEN 'process' THEN 3 WHEN 'declared' THEN 2 WHEN 'cgroup' THEN 1 ELSE 0 END AS precedence
    FROM allocations a LEFT JOIN names n ON n.alias_run_id = a.run_id
    WHERE a.started_at < $end AND a.node IN (SELECT node FROM notice_process_hours)
    QUALIFY row_number() OVER (PARTITION BY coalesce(n.run_id, a.run_id), a.node, a.gpu_uuid, a.started_at
        ORDER BY a.batch DESC, a.ended_at DESC NULLS LAST) = 1
), present AS (
    SELECT p.hour, p.node, p.gpu_uuid, coalesce(n.run_id, p.told_as) AS run_id, min(p.owner) AS owner, max(p.ms) AS ms,
        sum(p.memory_max)::BIGINT AS memory_max, sum(p.cpu_ms)::BIGINT AS cpu_ms,
        max(p.shares_ms) AS shares_ms, sum(p.shares)::BIGINT AS shares
    FROM notice_process_hours p LEFT JOIN names n ON n.alias_run_id = p.told_as GROUP BY ALL
), held AS (
    SELECT p.hour, p.node, p.gpu_uuid, p.run_id, k.precedence, greatest(k.from_us, p.hour) AS from_us,
        least(k.until_us, p.hour + 3600000000) AS until_us
    FROM present p JOIN known k USING (run_id, gpu_uuid)
    WHERE k.from_us < p.hour + 3600000000 AND k.until_us > p.hour
    QUALIFY k.precedence = min(k.precedence) OVER (PARTITION BY p.hour, p.gpu_uuid)
), together AS (
    -- A process of which no allocation tells was there as long as it was seen.
    SELECT h.run_id, s.run_id AS foreign_run, h.gpu_uuid, h.hour,
        sum(least(h.until_us, coalesce(k.until_us, h.until_us))
            - greatest(h.from_us, coalesce(k.from_us, h.from_us))) // 1000 AS ms
    FROM held h JOIN present s ON s.hour = h.hour AND s.gpu_uuid = h.gpu_uuid AND s.run_id <> h.run_id
    LEFT JOIN known k ON k.run_id = s.run_id AND k.gpu_uuid = s.gpu_uuid
    WHERE (k.run_id IS NULL OR k.from_us < h.until_us AND k.until_us > h.from_us)
        AND NOT EXISTS (SELECT 1 FROM known p WHERE p.run_id = s.run_id AND p.precedence <= h.precedence
            AND (p.gpu_uuid = s.gpu_uuid OR p.gpu_uuid IS NULL AND p.node = s.node)
            AND p.from_us < h.until_us AND p.until_us > h.from_us)
    GROUP BY ALL
), beside AS (
    SELECT o.run_id, o.foreign_run, s.* EXCLUDE (run_id), least(s.ms, o.ms)::BIGINT AS beside_ms,
        2 * coalesce(s.shares_ms, 0) >= s.ms AS is_told
    FROM together o JOIN present s ON s.run_id = o.foreign_run AND s.gpu_uuid = o.gpu_uuid AND s.hour = o.hour
    WHERE o.ms > 0
), summed AS (
    SELECT b.run_id, b.foreign_run, b.node, b.gpu_uuid, min(b.owner) AS owner, sum(b.beside_ms)::BIGINT AS beside_ms,
        sum(b.ms)::BIGINT AS ms, sum(b.beside_ms) FILTER (b.is_told)::BIGINT AS told_ms,
        sum(b.beside_ms * b.shares // (1000 * b.shares_ms)) FILTER (b.is_told)::BIGINT AS taken_ms,
        sum(b.cpu_ms)::BIGINT AS cpu_ms, max(b.memory_max) AS memory, max(g.utilization) AS utilization
    FROM beside b LEFT JOIN notice_gpu_hours g ON g.hour = b.hour AND g.gpu_uuid = b.gpu_uuid GROUP BY ALL
)
SELECT s.run_id, r.name, r.team, s.foreign_run, f.team AS foreign_team, s.node, s.gpu_uuid,
    coalesce(coalesce(f.owner, s.owner) = r.owner, false) AS is_own,
    s.beside_ms, s.ms, s.told_ms, s.taken_ms, s.cpu_ms, s.memory, s.utilization
FROM summed s JOIN runs r USING (run_id) LEFT JOIN runs f ON f.run_id = s.foreign_run
ORDER BY r.name, s.run_id, is_own, s.node, s.foreign_run, s.gpu_uuid
