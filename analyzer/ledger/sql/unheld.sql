-- Of GPU-hours that are booked as free from end to end: how many, and in how many of them the GPU worked all the same.
WITH free AS (
    SELECT gpu_uuid, hour, sum(milliseconds)::BIGINT AS ms FROM ledger WHERE hour >= $start AND hour < $end
    GROUP BY ALL HAVING bool_and(state = 'unallocated' AND coalesce(cause = 'free', false))
), hourly AS (
    SELECT gpu_uuid, hour, sum(active_permille_ms) // sum(measured_ms) AS activity FROM activity_amounts
    WHERE hour >= $start AND hour < $end GROUP BY ALL
)
SELECT coalesce(sum(f.ms), 0)::BIGINT, coalesce(sum(f.ms) FILTER (h.activity >= $active), 0)::BIGINT,
    (sum(f.ms * h.activity) FILTER (h.activity >= $active) // sum(f.ms) FILTER (h.activity >= $active))::BIGINT
FROM free f LEFT JOIN hourly h USING (gpu_uuid, hour)
