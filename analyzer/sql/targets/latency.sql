-- Time of services that declare a latency, and of it the part in which their 99th percentile kept it; microseconds.
SELECT coalesce(sum(ended_at - started_at), 0)::BIGINT,
    coalesce(sum(ended_at - started_at) FILTER (first_token_seconds_p99 <= slo_seconds), 0)::BIGINT
FROM service_samples WHERE started_at >= $start AND started_at < $end
    AND slo_seconds IS NOT NULL AND first_token_seconds_p99 IS NOT NULL;
