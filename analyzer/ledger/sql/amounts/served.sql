-- What services said that they did, and how they kept what they promised, by the hour in which each interval began.
-- only with service_samples
CREATE OR REPLACE TEMP TABLE served_new AS
SELECT s.started_at // 3600000000 * 3600000000 AS hour, coalesce(k.run_id, s.run_id) AS run_id, s.node,
    amount(sum(s.requests)) AS requests, amount(sum(s.requests_failed)) AS requests_failed,
    amount(sum(s.tokens_in)) AS tokens_in, amount(sum(s.tokens_cached)) AS tokens_cached,
    amount(sum(s.tokens_out)) AS tokens_out,
    min(s.ended_at) FILTER (s.requests > 0 AND s.started_at >= r.started_at) AS answered_at,
    amount(sum(s.ended_at - s.started_at)
        FILTER (s.slo_seconds IS NOT NULL
            AND coalesce(s.first_token_seconds_p99, s.first_token_seconds_p99_low) IS NOT NULL)) AS promised_us,
    amount(sum(s.ended_at - s.started_at) FILTER (kept_promise(s.first_token_seconds_p99,
        s.first_token_seconds_p99_low, s.first_token_seconds_p99_high, s.slo_seconds))) AS kept_us,
    amount(sum(s.ended_at - s.started_at) FILTER (s.slo_seconds IS NOT NULL
        AND coalesce(s.first_token_seconds_p99, s.first_token_seconds_p99_low) IS NOT NULL
        AND kept_promise(s.first_token_seconds_p99, s.first_token_seconds_p99_low, s.first_token_seconds_p99_high,
            s.slo_seconds) IS NULL)) AS undecided_us
FROM service_samples s LEFT JOIN amount_names k ON k.alias = s.run_id AND s.started_at >= k.from_us
    AND s.started_at < k.until_us
LEFT JOIN runs r ON r.run_id = coalesce(k.run_id, s.run_id)
WHERE s.started_at >= $from_us AND s.started_at < $until_us GROUP BY ALL;

-- only with service_samples
CREATE OR REPLACE TEMP TABLE latency_new AS
WITH told AS (
    SELECT s.started_at // 3600000000 * 3600000000 AS hour, coalesce(k.run_id, s.run_id) AS run_id, s.engine,
        whole(1000000 * if(s.slo_seconds > 1000000, 1000000, s.slo_seconds))::BIGINT AS slo_micros,
        latency_micros(s.first_token_seconds_p99, s.first_token_seconds_p99_low) AS micros,
        latency_micros(s.inter_token_seconds_p99, s.inter_token_seconds_p99_low) AS between_micros
    FROM service_samples s LEFT JOIN amount_names k ON k.alias = s.run_id AND s.started_at >= k.from_us
        AND s.started_at < k.until_us
    WHERE s.started_at >= $from_us AND s.started_at < $until_us
)
SELECT hour, run_id, engine, slo_micros, amount_digits(micros) AS first_token_micros,
    amount_digits(between_micros) AS inter_token_micros, count(*) AS intervals FROM told
    GROUP BY ALL
