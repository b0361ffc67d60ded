-- What one run held, by state and cause.
SELECT state, cause, sum(milliseconds)::BIGINT, CASE WHEN count(*) FILTER (cost_micros IS NULL) = 0
    THEN sum(cost_micros)::BIGINT END
FROM ledger WHERE run_id = $run AND hour >= $start AND hour < $end GROUP BY ALL ORDER BY ALL
