-- What is stored of GPUs of $nodes that are booked as broken by $cause, in the hours that are claimed; with $runs,
-- while these held
-- them. An hour of which samples are kept is compared whole: of what they tell no more than is claimed counts.
WITH claimed AS (
    SELECT node, gpu_uuid, hour, sum(milliseconds)::BIGINT AS ms FROM ledger
    WHERE hour >= $start AND hour < $end AND state = 'broken' AND cause = $cause
        AND node IN (SELECT unnest($nodes::VARCHAR[]))
        AND (len($runs::VARCHAR[]) = 0 OR run_id IN (SELECT unnest($runs::VARCHAR[]))) GROUP BY ALL
), rows AS (
    SELECT coalesce(parent_uuid, gpu_uuid) AS gpu_uuid, started_at, (ended_at - started_at) // 1000 AS ms,
        CASE WHEN up = false THEN (ended_at - started_at) // 1000 ELSE 0 END AS lost_ms
    FROM gpu_samples WHERE started_at >= greatest($start, $rolled) AND started_at < $end
        AND node IN (SELECT unnest($nodes::VARCHAR[]))
    {minutes}
), hourly AS (
    SELECT gpu_uuid, started_at // 3600000000 * 3600000000 AS hour, sum(ms)::BIGINT AS ms,
        sum(lost_ms)::BIGINT AS lost_ms FROM rows GROUP BY ALL
), told AS (
    SELECT sum(least(c.ms, h.ms))::BIGINT AS ms, sum(least(c.ms, h.lost_ms))::BIGINT AS lost_ms FROM claimed c
        JOIN hourly h USING (gpu_uuid, hour)
), down AS (
    SELECT c.gpu_uuid, c.hour,
        least(any_value(c.ms), sum(greatest(0, least(s.ended_at, c.hour + 3600000000) - greatest(s.started_at, c.hour)))
        // 1000) AS ms
    FROM claimed c JOIN node_states s ON s.node = c.node AND s.state = 'down' AND s.started_at < c.hour + 3600000000
        AND coalesce(s.ended_at, $end) > c.hour
    GROUP BY ALL
)
SELECT (SELECT coalesce(sum(ms), 0)::BIGINT FROM claimed), t.ms, t.lost_ms,
    (SELECT coalesce(sum(ms), 0)::BIGINT FROM down) FROM told t
