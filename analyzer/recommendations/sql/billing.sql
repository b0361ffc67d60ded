-- How much of each run's time in each state lay on GPUs of which the bill counts the use ($by_use), in [$start, $end).
SELECT run_id, state, coalesce(cause, ''), sum(milliseconds)::BIGINT,
    coalesce(sum(milliseconds) FILTER (list_contains($by_use::VARCHAR[], purchase_option)), 0)::BIGINT,
    coalesce(sum(milliseconds) FILTER (list_contains($by_use::VARCHAR[] || $fixed::VARCHAR[], purchase_option)
        IS NOT TRUE), 0)::BIGINT,
    coalesce(sum(cost_micros), 0)::BIGINT,
        coalesce(sum(cost_micros) FILTER (list_contains($by_use::VARCHAR[], purchase_option)), 0)::BIGINT
FROM ledger WHERE hour >= $start AND hour < $end AND run_id IN (SELECT unnest($runs::VARCHAR[])) GROUP BY ALL
    ORDER BY ALL
