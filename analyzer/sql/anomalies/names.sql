-- What runs of each name of one team cost in the hours $hours, and in the hours like them before, $like: the same weekday
-- and hour in as many weeks as $weeks says.
WITH wanted AS (
    SELECT unnest($hours::BIGINT[]) AS hour, true AS is_now UNION ALL SELECT unnest($like::BIGINT[]), false
)
SELECT coalesce(r.name, r.run_id) AS name,
    coalesce(sum(l.cost_micros) FILTER (w.is_now), 0)::BIGINT,
    (coalesce(sum(l.cost_micros) FILTER (NOT w.is_now), 0) // $weeks)::BIGINT
FROM ledger l JOIN wanted w ON w.hour = l.hour JOIN runs r ON r.run_id = l.run_id
WHERE r.team IS NOT DISTINCT FROM $team
    AND ($everything OR list_contains($avoidable::VARCHAR[], l.state || '/' || coalesce(l.cause, '')))
GROUP BY ALL;
