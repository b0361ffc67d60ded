-- Services on hosts where training held GPUs in the same hour: how the service kept its promise then and when alone,
-- and
-- what training lost, throttled or starved, then and when alone.
CREATE OR REPLACE TEMP TABLE notice_mixed AS
WITH roles AS (
    SELECT h.*, r.stage = 'serving' AS serves, coalesce(r.name, r.run_id) AS name FROM notice_holds h
        JOIN runs r USING (run_id)
    WHERE r.stage IN ('serving', 'training', 'pretraining', 'fine-tuning', 'alignment')
)
SELECT *, bool_or(serves) OVER w AND NOT bool_and(serves) OVER w AS is_mixed
    FROM roles WINDOW w AS (PARTITION BY hour, node);

SELECT DISTINCT run_id FROM notice_mixed WHERE serves AND is_mixed ORDER BY run_id;

WITH hours AS (
    SELECT DISTINCT run_id, node, hour, is_mixed FROM notice_mixed WHERE serves
), told AS (
    SELECT run_id, node, hour, (promised_us - coalesce(undecided_us, 0)) // 1000 AS ms,
        (promised_us - coalesce(kept_us, 0) - coalesce(undecided_us, 0)) // 1000 AS missed_ms
    FROM served_amounts WHERE hour >= $start AND hour < $end AND promised_us IS NOT NULL
        AND list_contains($runs, run_id)
), promises AS (
    SELECT run_id, is_mixed, sum(ms)::BIGINT AS ms, sum(missed_ms)::BIGINT AS missed_ms FROM told
        JOIN hours USING (run_id, node, hour) GROUP BY ALL
), beside AS (
    SELECT s.run_id, count(DISTINCT (s.hour, s.node)) AS hours, list_sort(list_distinct(list(s.node))) AS nodes,
        list_sort(list_distinct(list(t.name))) AS names, list_distinct(list(t.run_id)) AS runs
    FROM (SELECT DISTINCT run_id, node, hour FROM notice_mixed WHERE serves AND is_mixed) s
    JOIN (SELECT DISTINCT run_id, node, hour, name FROM notice_mixed WHERE NOT serves) t USING (node, hour) GROUP BY ALL
), losses AS (
    SELECT b.run_id, t.is_mixed, sum(t.ms)::BIGINT AS ms, sum(t.slowed_ms)::BIGINT AS slowed_ms
    FROM beside b JOIN notice_mixed t ON NOT t.serves AND list_contains(b.runs, t.run_id) GROUP BY ALL
)
SELECT b.run_id, r.name, r.team, b.hours * 3600000 AS ms, b.nodes, b.names,
    coalesce(p.ms, 0), coalesce(p.missed_ms, 0), coalesce(q.ms, 0), coalesce(q.missed_ms, 0),
    coalesce(l.ms, 0), coalesce(l.slowed_ms, 0), coalesce(m.ms, 0), coalesce(m.slowed_ms, 0)
FROM beside b JOIN runs r USING (run_id)
LEFT JOIN promises p ON p.run_id = b.run_id AND p.is_mixed LEFT JOIN promises q ON q.run_id = b.run_id
    AND NOT q.is_mixed
LEFT JOIN losses l ON l.run_id = b.run_id AND l.is_mixed LEFT JOIN losses m ON m.run_id = b.run_id AND NOT m.is_mixed
ORDER BY r.name, b.run_id;

-- Queues that take both.
SELECT r.queue, count(DISTINCT r.run_id) FILTER (r.stage = 'serving') AS services,
    count(DISTINCT r.run_id) FILTER (r.stage <> 'serving') AS trainings
FROM runs r WHERE r.queue IS NOT NULL AND r.run_id IN (SELECT run_id FROM notice_mixed)
    AND r.stage IN ('serving', 'training', 'pretraining', 'fine-tuning', 'alignment')
GROUP BY ALL HAVING services > 0 AND trainings > 0 ORDER BY ALL
