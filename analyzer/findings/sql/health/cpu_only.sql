-- What runs computed on hosts with GPUs, and what they held there: only runs that held none, or left theirs alone.
WITH names AS (
    SELECT alias_run_id, run_id FROM run_aliases
    QUALIFY row_number() OVER (PARTITION BY alias_run_id ORDER BY batch DESC) = 1
), told AS (
    SELECT coalesce(n.run_id, h.told_as) AS run_id, h.node, h.hour, max(h.ms) AS ms, max(h.cpu_ms) AS cpu_ms
    FROM notice_run_hours h LEFT JOIN names n ON n.alias_run_id = h.told_as GROUP BY ALL
), busy AS (
    SELECT * FROM told WHERE cpu_ms * 1000 >= $cpu_only_millicores * ms
        AND node IN (SELECT DISTINCT node FROM ledger WHERE hour >= $start AND hour < $end)
), held AS (
    SELECT run_id, node, count(DISTINCT gpu_uuid) AS gpus, sum(ms) AS ms, sum(untouched_ms) AS untouched_ms
        FROM notice_holds GROUP BY ALL
), holders AS (
    SELECT DISTINCT run_id FROM notice_holds
), free AS (
    SELECT node, hour, sum(milliseconds) AS ms FROM ledger
    WHERE hour >= $start AND hour < $end AND state = 'unallocated' GROUP BY ALL
), others AS (
    SELECT node, hour, count(DISTINCT run_id) AS runs FROM notice_holds GROUP BY ALL
)
SELECT b.run_id, r.name, r.team, b.node, coalesce(h.gpus, 0) AS gpus, sum(b.ms)::BIGINT AS ms,
    sum(b.cpu_ms)::BIGINT AS cpu_ms,
    coalesce(sum(f.ms), 0)::BIGINT AS free_ms, coalesce(max(o.runs), 0) AS runs_beside
FROM busy b
LEFT JOIN held h ON h.run_id = b.run_id AND h.node = b.node
LEFT JOIN runs r ON r.run_id = b.run_id
LEFT JOIN free f ON f.node = b.node AND f.hour = b.hour
LEFT JOIN others o ON o.node = b.node AND o.hour = b.hour
WHERE CASE WHEN h.run_id IS NULL THEN b.run_id NOT IN (FROM holders)
    ELSE h.untouched_ms * 1000 >= h.ms * $untouched_permille END
GROUP BY ALL ORDER BY b.run_id, b.node;

SELECT count(*) > 0 FROM notice_run_hours WHERE cpu_ms IS NOT NULL
