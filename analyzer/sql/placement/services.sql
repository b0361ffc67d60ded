-- What serving stacks said of themselves in the period. Of the first token: the P99 of the intervals, in the median and in
-- the worst twentieth of those with answers. And how many replicas there were, and were needed at the most by their policy.
WITH latest AS (
    SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
), said AS (
    SELECT coalesce(n.run_id, s.run_id) AS run, arg_max(engine, started_at) AS engine, max(slo_seconds) AS slo,
        quantile_disc(first_token_seconds_p99, 0.5) AS p99, quantile_disc(first_token_seconds_p99, 0.95) AS worst
    FROM service_samples s LEFT JOIN latest n ON n.alias_run_id = s.run_id
    WHERE s.started_at >= $start AND s.started_at < $end GROUP BY run
), policies AS (
    SELECT run_id AS run, arg_max((counts->>'$.replicas')::BIGINT, window_start) AS replicas, max((counts->>'$.needed')::BIGINT) AS needed
    FROM run_windows WHERE window_start >= $start AND window_start < $end AND (counts->>'$.needed') IS NOT NULL GROUP BY run_id
)
SELECT run, s.engine, s.slo, s.p99, s.worst, p.replicas, p.needed FROM said s FULL JOIN policies p USING (run) ORDER BY run
