-- The same of hosts, whoever held them.
SELECT node, sum(milliseconds)::BIGINT,
    coalesce(sum(milliseconds) FILTER (list_contains($by_use::VARCHAR[], purchase_option)), 0)::BIGINT,
    coalesce(sum(milliseconds) FILTER (list_contains($by_use::VARCHAR[] || $fixed::VARCHAR[], purchase_option)
        IS NOT TRUE), 0)::BIGINT,
    coalesce(sum(cost_micros), 0)::BIGINT,
        coalesce(sum(cost_micros) FILTER (list_contains($by_use::VARCHAR[], purchase_option)), 0)::BIGINT
FROM ledger WHERE hour >= $start AND hour < $end GROUP BY node ORDER BY node
