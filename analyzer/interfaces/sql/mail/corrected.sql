-- What was learned from $since to $until of weeks that had closed, by the week (of those that begin at $starts), holder
-- and state.
SELECT w.week, a.team, a.state, a.cause, sum(a.milliseconds)::BIGINT, sum(a.cost_micros)::BIGINT
FROM {booked adjustments} a
ASOF JOIN (SELECT unnest($starts) AS week) w ON a.hour >= w.week
WHERE a.hour < $end AND a.recorded_at >= $since AND a.recorded_at < $until
GROUP BY ALL ORDER BY ALL;

-- What the ledger says of weeks that closed, as their reports print it: by the week, and whose time it was.
SELECT w.week, l.team, sum(l.milliseconds)::BIGINT, sum(l.cost_micros)::BIGINT,
       coalesce(bool_or(l.cost_micros IS NULL AND l.milliseconds > 0), false)
FROM (SELECT unnest($weeks::BIGINT[]) AS week, unnest($ends::BIGINT[]) AS until) w
JOIN {booked ledger} l ON l.hour >= w.week AND l.hour < w.until
GROUP BY ALL ORDER BY ALL;
