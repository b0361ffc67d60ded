-- Runs, no services, that held GPUs for long before these began to work, and what their processes used meanwhile.
WITH gpus AS (
    SELECT run_id, attempt, gpu_uuid, sum(milliseconds) FILTER (state = 'starting')::BIGINT AS starting_ms,
        sum(milliseconds)::BIGINT AS held_ms, min(hour) FILTER (state = 'starting') AS hour
    FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL GROUP BY ALL
), starts AS (
    SELECT g.run_id, any_value(r.name) AS name, any_value(r.team) AS team, count(*) FILTER (starting_ms > 0) AS gpus,
        max(starting_ms) AS longest_ms, sum(starting_ms)::BIGINT AS starting_ms, sum(held_ms)::BIGINT AS held_ms,
        min(hour) AS hour
    FROM gpus g JOIN runs r USING (run_id) WHERE r.stage <> 'serving' GROUP BY g.run_id
), names AS (
    SELECT alias_run_id, run_id FROM run_aliases
    QUALIFY row_number() OVER (PARTITION BY alias_run_id ORDER BY batch DESC) = 1
), used AS (
    SELECT coalesce(n.run_id, h.told_as) AS run_id, h.hour, sum(h.ms) AS ms, sum(h.cpu_ms) AS cpu_ms
    FROM notice_run_hours h LEFT JOIN names n ON n.alias_run_id = h.told_as GROUP BY ALL
)
SELECT s.run_id, s.name, s.team, s.gpus, s.longest_ms, s.starting_ms, s.held_ms,
    (u.cpu_ms * 1000 // nullif(u.ms, 0))::BIGINT AS cores_milli
FROM starts s LEFT JOIN used u ON u.run_id = s.run_id AND u.hour = s.hour
WHERE s.longest_ms > $long_start_ms ORDER BY coalesce(s.name, s.run_id), s.run_id
