-- What each team's runs cost by hour, and how much of it was avoidable ($avoidable lists state/cause of that class).
WITH by_run AS (
    SELECT hour, run_id, coalesce(sum(cost_micros), 0)::BIGINT AS held,
        coalesce(sum(cost_micros) FILTER (list_contains($avoidable::VARCHAR[], state || '/' || coalesce(cause, ''))), 0)::BIGINT AS avoidable
    FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL GROUP BY ALL
)
SELECT r.team, b.hour, sum(b.held)::BIGINT, sum(b.avoidable)::BIGINT
FROM by_run b LEFT JOIN runs r ON r.run_id = b.run_id GROUP BY ALL ORDER BY ALL;
