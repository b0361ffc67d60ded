-- Each service in a period, its runs together: GPU-milliseconds in which something was seen, and in which it could have
-- been.
-- Two shares of one window that add up to more than all of it overlapped for at least what is over: shares are
-- permille.
WITH counted AS (
    SELECT coalesce(r.name, w.run_id) AS service, r.team, w.run_id, w.window_start,
        (counts->>'$.ms')::BIGINT AS ms, (counts->>'$.gpus')::BIGINT AS gpus, (counts->>'$.still')::BIGINT AS still,
        (counts->>'$.utilization')::BIGINT AS utilization, (counts->>'$.requests')::BIGINT AS requests,
        (counts->>'$.running_milli')::BIGINT AS running_milli, (counts->>'$.answering')::BIGINT AS answering,
        (counts->>'$.queued')::BIGINT AS queued, (counts->>'$.kv_cache')::BIGINT AS kv_cache,
            (counts->>'$.kv_full')::BIGINT AS kv_full,
        (counts->>'$.slow')::BIGINT AS slow, (counts->>'$.busiest')::BIGINT AS busiest,
            (counts->>'$.cpu_throttled')::BIGINT AS throttled,
        (counts->>'$.cores_used_milli')::BIGINT * 1000 // nullif((counts->>'$.cores_milli')::BIGINT, 0) AS cores
    FROM run_windows w JOIN runs r USING (run_id)
    WHERE r.stage = 'serving' AND w.window_start >= $start AND w.window_start < $end
), seen AS (
    SELECT *, if(queued + still > 1000, queued + still - 1000, 0) * ms // 1000 AS queue_idle_ms,
        if(answering + still > 1000, answering + still - 1000, 0) * ms // 1000 AS answering_idle_ms,
        CASE WHEN busiest >= $full OR throttled >= $throttled OR cores >= $full THEN true
             WHEN busiest IS NOT NULL OR cores IS NOT NULL THEN false END AS is_host_full,
        utilization >= $busy AND answering > 0 AS is_busy,
        coalesce(slow >= $late, false) AS is_late, if(still >= $standing, still * ms // 1000, 0) AS standing_ms
    FROM counted
), moments AS (
    SELECT service, team, window_start, bool_or(is_late) AS is_late, sum(standing_ms) AS standing_ms,
        count(*) FILTER (standing_ms > 0) AS standing
    FROM seen GROUP BY ALL
), lates AS (
    SELECT service, team, count(*) AS late_windows, sum(standing_ms)::BIGINT AS late_standing_ms,
        max(standing) AS late_standing
    FROM moments WHERE is_late AND standing > 0 GROUP BY ALL
), summed AS (
    SELECT service, team, list(DISTINCT run_id ORDER BY run_id) AS run_ids, sum(ms)::BIGINT AS gpu_ms,
        (sum(ms) FILTER (kv_full IS NOT NULL))::BIGINT AS kv_ms, sum(kv_full * ms // 1000)::BIGINT AS kv_full_ms,
            max(kv_cache) AS kv_most,
        (sum(ms) FILTER (queued IS NOT NULL))::BIGINT AS queue_ms,
            (sum(queue_idle_ms) FILTER (queued IS NOT NULL))::BIGINT AS queue_idle_ms,
        (sum(ms) FILTER (answering IS NOT NULL))::BIGINT AS answering_ms,
            (sum(answering_idle_ms) FILTER (answering IS NOT NULL))::BIGINT AS answering_idle_ms,
        (sum(answering_idle_ms) FILTER (is_host_full IS NOT NULL))::BIGINT AS host_known_ms,
        coalesce(sum(answering_idle_ms) FILTER (is_host_full), 0)::BIGINT AS host_full_ms,
            max(busiest) FILTER (is_host_full) AS busiest,
        max(cores) FILTER (is_host_full) AS cores, max(throttled) FILTER (is_host_full) AS throttled,
        (sum(ms) FILTER (is_busy))::BIGINT AS busy_ms,
        (sum(ms) FILTER (is_busy AND running_milli * 1000 // answering <= $single))::BIGINT AS single_ms,
        (sum(queued * ms) FILTER (is_busy AND running_milli * 1000 // answering <= $single)
            // sum(ms) FILTER (is_busy AND running_milli * 1000 // answering <= $single
                AND queued IS NOT NULL))::BIGINT AS single_queued,
        (sum(ms) FILTER (slow IS NOT NULL))::BIGINT AS slo_ms
    FROM seen GROUP BY ALL
)
SELECT s.*, coalesce(l.late_windows, 0), coalesce(l.late_standing_ms, 0), coalesce(l.late_standing, 0)
FROM summed s LEFT JOIN lates l ON l.service = s.service AND l.team IS NOT DISTINCT FROM s.team ORDER BY s.service,
    s.team;
