-- One row a run (or host that nobody held), state and cause of a UTC day: in which hours, how much, how sure.
INSERT INTO finding_days
SELECT $day, run_id, CASE WHEN run_id IS NULL THEN node END, state, coalesce(cause, suspicion),
    bit_or(1::BIGINT << ((hour - $day) // $hour_us)), sum(milliseconds)::BIGINT, sum(cost_micros)::BIGINT,
    coalesce(sum(milliseconds) FILTER (confidence = 'high'), 0)::BIGINT,
    coalesce(sum(milliseconds) FILTER (coalesce(confidence, 'medium') = 'medium'), 0)::BIGINT
FROM ledger
WHERE hour >= $day AND hour < $day + $day_us
    AND (state || '/' || cause IN (SELECT unnest($avoidable)) OR (state = 'unexplained' AND suspicion IS NOT NULL))
GROUP BY ALL;
