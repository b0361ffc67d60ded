-- What was learned from $since to $until of weeks that had closed, by the week (of those that begin at $starts), holder
-- and state.
SELECT w.week, r.team, a.state, a.cause, sum(a.milliseconds)::BIGINT, sum(a.cost_micros)::BIGINT
FROM adjustments a LEFT JOIN runs r ON r.run_id = a.run_id
ASOF JOIN (SELECT unnest($starts) AS week) w ON a.hour >= w.week
WHERE a.hour < $end AND a.recorded_at >= $since AND a.recorded_at < $until
GROUP BY ALL ORDER BY ALL;
