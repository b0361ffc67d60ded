-- What runs of each name and team took in the period, and of it what was useful, avoidable and idle; how many runs,
-- their
-- kinds of GPU and their stage. $useful and $avoidable list state/cause of those classes.
SELECT coalesce(l.name, l.run_id), l.team, any_value(l.stage ORDER BY r.started_at DESC), count(DISTINCT l.run_id),
    list(DISTINCT l.sku ORDER BY l.sku), sum(l.milliseconds)::BIGINT,
    CASE WHEN count(*) = count(l.cost_micros) THEN sum(l.cost_micros)::BIGINT END,
    coalesce(sum(l.milliseconds) FILTER (list_contains($useful::VARCHAR[], l.state || '/' || coalesce(l.cause, ''))),
        0)::BIGINT,
    coalesce(sum(l.milliseconds) FILTER (list_contains($avoidable::VARCHAR[], l.state || '/' || coalesce(l.cause, ''))),
        0)::BIGINT,
    coalesce(sum(l.milliseconds) FILTER (l.state = 'held_idle'), 0)::BIGINT,
    coalesce(sum(l.milliseconds) FILTER (l.state = 'unobserved'), 0)::BIGINT
FROM {booked ledger} l JOIN runs r ON r.run_id = l.run_id WHERE l.hour >= $start AND l.hour < $end
GROUP BY 1, 2 ORDER BY 6 DESC, 1, 2;
