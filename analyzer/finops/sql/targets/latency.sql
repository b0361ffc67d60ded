-- Time of services that declare a latency, and of it the part in which their 99th percentile kept it; microseconds.
SELECT coalesce(sum(promised_us), 0)::BIGINT, coalesce(sum(kept_us), 0)::BIGINT
FROM served_amounts WHERE hour >= $start AND hour < $end;
