-- What serving stacks said of themselves in each ten minutes of each run, by every name that hosts have for it: sums of
-- whole numbers, with a bound on each so that none overflows (least() would pass over what is null). A row is of one
-- replica, so that milliseconds here are those of replicas.
-- only with service_samples, service_runs
CREATE OR REPLACE TEMP TABLE service_windows AS
WITH told AS (
    SELECT k.rid, s.started_at // 600000000 * 600000 AS window_ms, (s.ended_at - s.started_at) // 1000 AS ms,
        if(s.requests > 1000000000000, 1000000000000, s.requests) AS requests,
        if(s.running > 1000000000, 1000000000, s.running) AS running,
            if(s.waiting > 1000000000, 1000000000, s.waiting) AS waiting,
        milli(if(s.kv_cache_ratio > 1, 1, s.kv_cache_ratio)) AS kv_cache,
        kept_promise(micro(if(s.first_token_seconds_p99 > 1000000, 1000000, s.first_token_seconds_p99)),
            micro(if(s.first_token_seconds_p99_low > 1000000, 1000000, s.first_token_seconds_p99_low)),
            micro(if(s.first_token_seconds_p99_high > 1000000, 1000000, s.first_token_seconds_p99_high)),
            coalesce(p.slo_micros, micro(if(s.slo_seconds > 1000000, 1000000, s.slo_seconds)))) AS is_kept
    FROM service_samples s JOIN run_names k ON k.run_id = s.run_id AND s.started_at >= k.from_us
        AND s.started_at < k.until_us
    LEFT JOIN service_policies p ON p.rid = k.rid AND s.started_at >= p.from_us AND s.started_at < p.until_us
    WHERE s.started_at >= $from_us AND s.started_at < $until_us AND s.ended_at > s.started_at
        AND k.rid IN (SELECT rid FROM service_runs)
)
SELECT rid, window_ms, amount(sum(requests)) AS requests,
    (sum(ms) FILTER (requests IS NOT NULL))::BIGINT AS requests_ms,
    amount(sum(1000::HUGEINT * running * ms) // sum(ms) FILTER (running IS NOT NULL)) AS running_milli,
    (coalesce(sum(ms) FILTER (running > 0), 0) * 1000 // sum(ms) FILTER (running IS NOT NULL))::BIGINT AS answering,
    amount(sum(1000::HUGEINT * waiting * ms) // sum(ms) FILTER (waiting IS NOT NULL)) AS waiting_milli,
    (coalesce(sum(ms) FILTER (waiting > 0), 0) * 1000 // sum(ms) FILTER (waiting IS NOT NULL))::BIGINT AS queued,
    (sum(kv_cache * ms) // sum(ms) FILTER (kv_cache IS NOT NULL))::BIGINT AS kv_cache,
    (coalesce(sum(ms) FILTER (kv_cache >= $kv_full_permille AND waiting > 0), 0) * 1000
        // sum(ms) FILTER (kv_cache IS NOT NULL AND waiting IS NOT NULL))::BIGINT AS kv_full,
    (coalesce(sum(ms) FILTER (NOT is_kept), 0) * 1000 // sum(ms) FILTER (is_kept IS NOT NULL))::BIGINT AS slow
FROM told GROUP BY ALL;

-- Which pod, task or replica within its run a GPU was given to from when on; schedulers that know of none leave it out.
-- only with service_runs
CREATE OR REPLACE TEMP TABLE service_members AS
SELECT k.rid, u.uid, a.started_at // 1000 AS from_ms, max(a.member) AS member
FROM allocations a JOIN run_names k ON k.run_id = a.run_id AND a.started_at >= k.from_us AND a.started_at < k.until_us
JOIN service_runs r USING (rid) JOIN units u ON u.uuid = a.gpu_uuid JOIN chunk_gpus USING (gid)
WHERE a.member IS NOT NULL GROUP BY ALL
