-- Of GPU-hours that are booked as free from end to end: how many, and in how many of them the GPU worked all the same.
-- Hours are read where samples are rolled up (before $rolled), samples where they are not.
WITH free AS (
    SELECT gpu_uuid, hour, sum(milliseconds)::BIGINT AS ms FROM ledger WHERE hour >= $start AND hour < $end
    GROUP BY ALL HAVING bool_and(state = 'unallocated' AND coalesce(cause = 'free', false))
), told AS (
    SELECT coalesce(parent_uuid, gpu_uuid) AS gpu_uuid, started_at // 3600000000 * 3600000000 AS hour,
        (ended_at - started_at) // 1000 AS ms, coalesce(sm_active_ratio, utilization_ratio) AS activity
    FROM gpu_samples WHERE started_at >= greatest($start, $rolled) AND started_at < $end
    {hours}
), hourly AS (
    SELECT gpu_uuid, hour, sum(activity * ms) / sum(ms) AS activity FROM told WHERE activity IS NOT NULL AND ms > 0 GROUP BY ALL
)
SELECT coalesce(sum(f.ms), 0)::BIGINT, coalesce(sum(f.ms) FILTER (h.activity * 1000 >= $active), 0)::BIGINT,
    round(1000 * sum(f.ms * h.activity) FILTER (h.activity * 1000 >= $active) / sum(f.ms) FILTER (h.activity * 1000 >= $active))::BIGINT
FROM free f LEFT JOIN hourly h USING (gpu_uuid, hour)
