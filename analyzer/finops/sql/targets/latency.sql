-- Time of services that declare a latency, the part of it in which their 99th percentile kept it, and that in which
-- nobody knows whether it did; microseconds.
SELECT coalesce(sum(promised_us), 0)::BIGINT, coalesce(sum(kept_us), 0)::BIGINT, coalesce(sum(undecided_us), 0)::BIGINT
FROM served_amounts WHERE hour >= $start AND hour < $end;
