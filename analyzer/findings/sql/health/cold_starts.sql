-- How often and how long the GPUs of each service were starting in a period, and how long after it began a run
-- answered.
WITH starts AS (
    SELECT coalesce(r.name, l.run_id) AS service, r.team, l.run_id, l.attempt, l.gpu_uuid,
        coalesce(sum(l.milliseconds) FILTER (l.state = 'starting'), 0)::BIGINT AS starting_ms,
            sum(l.milliseconds)::BIGINT AS held_ms
    FROM ledger l JOIN runs r USING (run_id)
    WHERE r.stage = 'serving' AND l.hour >= $start AND l.hour < $end GROUP BY ALL
), answers AS (
    SELECT coalesce(r.name, r.run_id) AS service, r.team, r.run_id, min(a.answered_at) - min(r.started_at) AS after_us
    FROM runs r JOIN served_amounts a USING (run_id)
    WHERE r.stage = 'serving' AND r.started_at >= $start AND r.started_at < $end AND a.answered_at IS NOT NULL
        AND a.hour >= $start AND a.hour < $end
    GROUP BY ALL
), answered AS (
    SELECT service, team, quantile_disc(after_us, 0.5) // 1000 AS answer_ms FROM answers GROUP BY ALL
)
SELECT s.service, s.team, list(DISTINCT run_id ORDER BY run_id) AS run_ids, sum(held_ms)::BIGINT AS held_ms,
    sum(starting_ms)::BIGINT AS starting_ms,
    count(*) FILTER (starting_ms > 0) AS starts, quantile_disc(starting_ms, 0.5) FILTER (starting_ms > 0) AS usual_ms,
        max(starting_ms) AS longest_ms,
    max(a.answer_ms) AS answer_ms
FROM starts s LEFT JOIN answered a ON a.service = s.service AND a.team IS NOT DISTINCT FROM s.team
GROUP BY s.service, s.team ORDER BY s.service, s.team;
