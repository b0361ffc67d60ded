-- What serving stacks said of themselves in the period. Of the first token: the P99 of the intervals, in the median and
-- in
-- the worst twentieth of those with answers. And how many replicas there were, and were needed at the most by their
-- policy.
WITH said AS (
    SELECT run_id AS run, arg_max(engine, hour) AS engine, max(slo_micros) / 1e6 AS slo,
        quantile_disc(first_token_micros, 0.5) / 1e6 AS p99, quantile_disc(first_token_micros, 0.95) / 1e6 AS worst
    FROM (SELECT *, unnest(range(intervals)) FROM latency_amounts WHERE hour >= $start AND hour < $end) GROUP BY run
), policies AS (
    SELECT run_id AS run, arg_max((counts->>'$.replicas')::BIGINT, window_start) AS replicas,
        max((counts->>'$.needed')::BIGINT) AS needed
    FROM run_windows WHERE window_start >= $start AND window_start < $end AND (counts->>'$.needed') IS NOT NULL
        GROUP BY run_id
)
SELECT run, s.engine, s.slo, s.p99, s.worst, p.replicas, p.needed FROM said s FULL JOIN policies p USING (run)
    ORDER BY run
