-- Of each owned host: when it was last heard of, whether its scheduler calls it down, and what its agent says of
-- itself.
WITH hosts AS (
    SELECT node, count(DISTINCT gpu_uuid) AS gpus,
        bool_and(state = 'unobserved' AND cause = 'never_seen') AS never_seen
    FROM ledger WHERE hour >= $start AND hour < $end GROUP BY ALL
), newest AS (
    SELECT node, bool_or(state = 'broken' AND cause = 'node_down') AS is_down FROM ledger
    WHERE hour = (SELECT max(hour) FROM ledger WHERE hour >= $start AND hour < $end) GROUP BY node
), agents AS (
    SELECT node, max(ended_at) AS last_at, sum((ended_at - started_at) // 1000)::BIGINT AS told_ms,
        sum(gaps)::BIGINT AS gaps,
        sum(dropped_batches)::BIGINT AS dropped_batches, sum(dropped_rows)::BIGINT AS dropped_rows,
        quantile_disc(abs((1000 * clock_offset_seconds)::BIGINT), 0.5)
            FILTER (clock_offset_seconds IS NOT NULL) AS offset_ms,
        arg_max(paused, started_at) FILTER (paused IS NOT NULL) AS paused
    FROM agent_samples WHERE started_at >= $start AND started_at < $end GROUP BY node
), gpus AS (
    SELECT node, max(hour) AS last_hour FROM notice_gpu_hours GROUP BY node
), beats AS (
    SELECT node, quantile_disc((ended_at - started_at) // 1000, 0.5) AS beat_ms FROM gpu_samples
    WHERE started_at >= $newest AND started_at < $end GROUP BY node
)
SELECT h.node, h.gpus, h.never_seen, n.node IS NOT NULL AND NOT n.is_down AS is_expected,
    greatest(a.last_at, s.last_at) AS last_at,
    a.told_ms, a.gaps, b.beat_ms, coalesce(a.dropped_batches, 0) AS dropped_batches,
        coalesce(a.dropped_rows, 0) AS dropped_rows,
    a.offset_ms, coalesce(a.paused, false) AS paused
FROM hosts h LEFT JOIN newest n USING (node) LEFT JOIN agents a USING (node) LEFT JOIN beats b USING (node)
LEFT JOIN (
    SELECT node, max(ended_at) AS last_at FROM gpu_samples WHERE started_at >= $newest AND started_at < $end
        GROUP BY node
    UNION ALL SELECT node, last_hour + 3600000000 FROM gpus WHERE last_hour + 3600000000 <= $newest
) s USING (node)
ORDER BY h.node
