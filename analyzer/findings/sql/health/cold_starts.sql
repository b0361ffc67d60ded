-- How often and how long each service was starting in a period, and how long after it began a run answered. GPUs that a
-- run took at one time start once, whether it is eight for one model or a model on each.
WITH gpus AS (
    SELECT coalesce(r.name, l.run_id) AS service, r.team, l.run_id, l.attempt, l.gpu_uuid,
        coalesce(sum(l.milliseconds) FILTER (l.state = 'starting'), 0)::BIGINT AS starting_ms,
        sum(l.milliseconds)::BIGINT AS held_ms, min(l.hour) FILTER (l.state = 'starting') AS hour
    FROM ledger l JOIN runs r USING (run_id)
    WHERE r.stage = 'serving' AND l.hour >= $start AND l.hour < $end GROUP BY ALL
), taken AS (
    SELECT g.*, coalesce(a.started_at, g.hour) AS taken_at
    FROM gpus g ASOF LEFT JOIN (SELECT DISTINCT run_id, gpu_uuid, started_at FROM allocations) a
        ON a.run_id = g.run_id AND a.gpu_uuid = g.gpu_uuid AND a.started_at < g.hour + 3600000000
), numbered AS (
    SELECT *, count(*) FILTER (is_new) OVER (PARTITION BY run_id, attempt ORDER BY taken_at) AS number FROM (
        SELECT *, coalesce(taken_at - lag(taken_at) OVER (PARTITION BY run_id, attempt ORDER BY taken_at)
            > $together_us, true) AS is_new FROM taken)
), starts AS (
    SELECT service, team, run_id, max(starting_ms) AS lasted_ms, count(*) FILTER (starting_ms > 0) AS gpus,
        sum(starting_ms) AS starting_ms, sum(held_ms) AS held_ms
    FROM numbered GROUP BY service, team, run_id, attempt, number
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
    count(*) FILTER (lasted_ms > 0) AS starts, sum(gpus)::BIGINT AS gpus,
    quantile_disc(lasted_ms, 0.5) FILTER (lasted_ms > 0) AS usual_ms, max(lasted_ms) AS longest_ms,
    max(a.answer_ms) AS answer_ms
FROM starts s LEFT JOIN answered a ON a.service = s.service AND a.team IS NOT DISTINCT FROM s.team
GROUP BY s.service, s.team ORDER BY s.service, s.team;
