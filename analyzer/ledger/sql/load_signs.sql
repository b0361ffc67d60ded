-- What the runs and their hosts did in each minute in which any of it may be a sign.
CREATE OR REPLACE TEMP TABLE host_signs AS
WITH looked_at AS (
    SELECT l.rid, l.nid, n.node, min(look_from_ms) AS from_ms, max(least(work_ms, until_ms)) AS until_ms
    FROM loading l JOIN nodes n USING (nid) JOIN run_facts r USING (rid) WHERE NOT r.is_interactive GROUP BY ALL
), span AS (
    SELECT greatest(min(from_ms), $from_ms - 2 * $starting_ms) * 1000 AS from_us,
        least(max(until_ms), $until_ms + 2 * $starting_ms) * 1000 AS until_us FROM looked_at
), own AS (
    SELECT k.rid, s.node, s.started_at, s.ended_at, s.cpu_seconds, s.read_bytes, false AS is_process
    FROM run_samples s JOIN run_names k ON k.run_id = s.run_id AND s.started_at >= k.from_us
        AND s.started_at < k.until_us
    CROSS JOIN span t WHERE s.started_at >= t.from_us AND s.started_at < t.until_us
    UNION ALL
    SELECT k.rid, s.node, s.started_at, s.ended_at, s.cpu_seconds, s.read_bytes, true
    FROM process_samples s JOIN run_names k ON k.run_id = s.run_id AND s.started_at >= k.from_us
        AND s.started_at < k.until_us
    CROSS JOIN span t WHERE s.started_at >= t.from_us AND s.started_at < t.until_us
), own_minutes AS (
    SELECT l.rid, min(started_at) // 1000 AS from_ms, max(ended_at) // 1000 AS until_ms,
        amount(sum(milli(cpu_seconds))) AS cpu_ms, amount(sum(read_bytes)) AS read_bytes
    FROM own o JOIN looked_at l ON l.rid = o.rid AND l.node = o.node
    GROUP BY l.rid, l.node, o.is_process, started_at // 60000000
), of_hosts AS (
    SELECT s.node, s.started_at, s.ended_at, s.read_bytes, true AS is_disk FROM disk_samples s CROSS JOIN span t
    WHERE s.started_at >= t.from_us AND s.started_at < t.until_us
    UNION ALL
    SELECT s.node, s.started_at, s.ended_at, s.receive_bytes, false FROM network_samples s CROSS JOIN span t
    WHERE s.started_at >= t.from_us AND s.started_at < t.until_us
), host_minutes AS (
    SELECT l.rid, l.nid, min(started_at) // 1000 AS from_ms, max(ended_at) // 1000 AS until_ms,
        amount(sum(read_bytes)) AS read_bytes
    FROM of_hosts o JOIN looked_at l USING (node) GROUP BY l.rid, l.nid, o.is_disk, started_at // 60000000
)
SELECT rid, from_ms, until_ms FROM own_minutes
WHERE cpu_ms * 1000 >= (until_ms - from_ms) * $one_core_least_milli
    OR read_bytes >= (until_ms - from_ms) * $loading_kb_per_ms * 1000
UNION
-- What a host reads is the run's where nobody else holds a GPU of it.
SELECT rid, from_ms, until_ms FROM host_minutes m
WHERE read_bytes >= (until_ms - from_ms) * $loading_kb_per_ms * 1000
    AND NOT EXISTS (SELECT 1 FROM holds o JOIN units u USING (uid) WHERE u.nid = m.nid AND o.rid <> m.rid
        AND o.from_ms < m.until_ms AND o.until_ms > m.from_ms);

-- The signs of each start that follow on one another without a pause as long as what is given to each.
INSERT INTO load_signs
WITH grown AS (
    SELECT rid, attempt, uid, from_ms AS held_ms, minute_ms AS from_ms, seen_ms AS until_ms
    FROM young_minutes WHERE grown_mb >= greatest($grown_mb, memory_mb * $grown_permille // 1000)
), stirring AS (
    SELECT DISTINCT rid, attempt, minute_ms AS from_ms, seen_ms AS until_ms FROM young_minutes WHERE stirs
), signs AS (
    SELECT l.rid, l.attempt, l.uid, l.from_ms AS held_ms, g.from_ms, g.until_ms, true AS has_grown
    FROM loading l JOIN grown g ON g.rid = l.rid AND g.attempt = l.attempt AND g.from_ms >= l.look_from_ms
        AND (g.uid = l.uid AND g.held_ms = l.from_ms OR g.from_ms < coalesce(l.work_ms, g.until_ms))
    UNION
    SELECT l.rid, l.attempt, l.uid, l.from_ms, s.from_ms, s.until_ms, false
    FROM loading l JOIN host_signs s ON s.rid = l.rid AND s.from_ms >= l.look_from_ms
        AND s.from_ms < coalesce(l.work_ms, s.until_ms)
    WHERE NOT EXISTS (SELECT 1 FROM stirring t WHERE t.rid = l.rid AND t.attempt = l.attempt
        AND t.from_ms < s.until_ms AND t.until_ms > s.from_ms)
), counted AS (
    SELECT s.*, l.seen_ms, greatest(l.grown_ms, max(s.until_ms) FILTER (s.has_grown) OVER so_far) AS last_grown_ms
    FROM signs s JOIN loading l ON l.rid = s.rid AND l.attempt = s.attempt AND l.uid = s.uid AND l.from_ms = s.held_ms
    WINDOW so_far AS (PARTITION BY s.rid, s.attempt, s.uid, s.held_ms ORDER BY s.from_ms, s.until_ms, s.has_grown)
    QUALIFY s.has_grown OR s.until_ms <= last_grown_ms + $grown_last_ms
), paused AS (
    SELECT *, from_ms - greatest(seen_ms, max(until_ms) OVER (own ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
        > $starting_ms AS is_pause
    FROM counted WINDOW own AS (PARTITION BY rid, attempt, uid, held_ms ORDER BY from_ms, until_ms, has_grown)
)
SELECT rid, attempt, uid, held_ms, from_ms, until_ms, last_grown_ms FROM paused
QUALIFY NOT bool_or(is_pause) OVER (PARTITION BY rid, attempt, uid, held_ms ORDER BY from_ms, until_ms, has_grown)
