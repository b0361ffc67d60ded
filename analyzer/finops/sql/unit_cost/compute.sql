-- What each team held: all, not measured, useful, its cost, and how active its GPUs were. $useful lists state/cause.
WITH held AS (
    SELECT l.team, sum(l.milliseconds)::BIGINT AS milliseconds,
        coalesce(sum(l.milliseconds) FILTER (l.state = 'unobserved'), 0)::BIGINT AS unobserved,
        coalesce(sum(l.milliseconds)
            FILTER (list_contains($useful::VARCHAR[], l.state || '/' || coalesce(l.cause, ''))), 0)::BIGINT AS useful,
        CASE WHEN count(*) = count(l.cost_micros) THEN sum(l.cost_micros)::BIGINT END AS micros
    FROM {booked ledger} l JOIN runs r ON r.run_id = l.run_id WHERE l.hour >= $start AND l.hour < $end GROUP BY ALL
), active AS (
    SELECT a.team, (sum(a.permille::HUGEINT * a.milliseconds) // sum(a.milliseconds))::BIGINT AS permille
    FROM {booked run_activity} a JOIN runs r ON r.run_id = a.run_id
    WHERE a.hour >= $start AND a.hour < $end AND a.milliseconds > 0 GROUP BY ALL
)
SELECT h.team, h.milliseconds, h.unobserved, h.useful, h.micros, a.permille
FROM held h LEFT JOIN active a ON a.team IS NOT DISTINCT FROM h.team
ORDER BY coalesce(h.micros, 0) DESC, h.milliseconds DESC, h.team;
