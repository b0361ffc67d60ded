-- What each week that begins at one of $starts came to by holder, and of it what was avoidable ($avoidable lists
-- state/cause of that class). By hour and run first: a fleet has a hundred rows of the ledger where that has one.
WITH by_run AS (
    SELECT hour, run_id, state || '/' || coalesce(cause, '') AS booked, sum(milliseconds)::BIGINT AS time,
        coalesce(sum(cost_micros), 0)::BIGINT AS cost, count(*) - count(cost_micros) AS unpriced
    FROM ledger WHERE hour >= $start AND hour < $end GROUP BY ALL
)
SELECT w.week, b.team, b.run_id IS NOT NULL AS held, sum(time)::BIGINT, sum(cost)::BIGINT, sum(unpriced) = 0,
    coalesce(sum(time) FILTER (list_contains($avoidable::VARCHAR[], booked)), 0)::BIGINT,
    coalesce(sum(cost) FILTER (list_contains($avoidable::VARCHAR[], booked)), 0)::BIGINT
FROM {booked by_run} b
ASOF JOIN (SELECT unnest($starts) AS week) w ON b.hour >= w.week
GROUP BY ALL;
