-- Of the time that runs held: all, not measured, useful and idle. $useful lists state/cause of that class.
SELECT coalesce(sum(milliseconds), 0)::BIGINT, coalesce(sum(milliseconds) FILTER (state = 'unobserved'), 0)::BIGINT,
    coalesce(sum(milliseconds) FILTER (list_contains($useful::VARCHAR[], state || '/' || coalesce(cause, ''))),
        0)::BIGINT,
    coalesce(sum(milliseconds) FILTER (state = 'held_idle'), 0)::BIGINT
FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL;
