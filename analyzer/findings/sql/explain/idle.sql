-- What stored figures say of the GPUs that a finding's runs ($runs) are booked to have held idle, by $cause, in the
-- hours
-- that it claims. Minutes are read where samples are rolled up (before $rolled), samples where they are not.
WITH claimed AS (
    SELECT run_id, gpu_uuid, hour, sum(milliseconds)::BIGINT AS ms FROM ledger
    WHERE hour >= $start AND hour < $end AND state = 'held_idle' AND cause = $cause AND run_id IN (SELECT unnest($runs))
        GROUP BY ALL
), begun AS (
    SELECT run_id, gpu_uuid, min(started_at) AS held_at FROM allocations
    WHERE run_id IN (SELECT unnest($runs)) AND started_at IS NOT NULL AND gpu_uuid IS NOT NULL GROUP BY ALL
), holds AS (
    -- From when on a run held a GPU: what that did before the run's first idle hour on it tells whether it was ever
    -- used.
    SELECT c.run_id, c.gpu_uuid, min(c.hour) AS idle_hour, max(c.hour) + 3600000000 AS until,
        coalesce(any_value(b.held_at), min(c.hour)) AS held_at
    FROM claimed c LEFT JOIN begun b USING (run_id, gpu_uuid) GROUP BY ALL
), spans AS (
    -- A quiet stretch may begin before the hold and go on after it: it is the GPU's.
    SELECT gpu_uuid, least(min(held_at), min(idle_hour)) - $around AS from_us, max(until) + $around AS until_us
        FROM holds GROUP BY ALL
), rows AS (
    SELECT coalesce(parent_uuid, gpu_uuid) AS gpu_uuid, gpu_uuid AS unit, started_at, ended_at,
        (ended_at - started_at) // 1000 AS ms,
        coalesce(sm_active_ratio, utilization_ratio) AS activity, coalesce(sm_active_ratio, utilization_ratio) AS most,
        greatest(coalesce(utilization_zero_ratio, 0), 1 - coalesce(utilization_ratio, 1)) AS still,
            memory_used_bytes AS memory
    FROM gpu_samples WHERE started_at >= greatest($start - $around, $rolled) AND started_at < $end + $around
        AND up IS DISTINCT FROM false
        AND node IN (SELECT unnest($nodes::VARCHAR[]))
    {minutes}
), told AS (
    SELECT r.*, r.started_at // 3600000000 * 3600000000 AS hour, r.most * 1000 <= $quiet AS is_quiet
    FROM rows r JOIN spans s ON s.gpu_uuid = r.gpu_uuid AND r.started_at >= s.from_us AND r.started_at < s.until_us
    WHERE r.activity IS NOT NULL AND r.ms > 0
), hourly AS (
    SELECT gpu_uuid, hour, sum(ms) AS ms, coalesce(sum(ms) FILTER (is_quiet), 0) AS quiet_ms,
        sum(CASE WHEN is_quiet THEN ms ELSE (ms * still)::BIGINT END) AS still_ms,
        coalesce(sum(ms) FILTER (activity * 1000 > $active), 0) AS worked_ms,
        max(memory // 1000000) FILTER (is_quiet) AS memory_mb
    FROM told GROUP BY ALL
), read AS (
    SELECT sum(c.ms)::BIGINT AS ms, sum(least(c.ms, h.quiet_ms))::BIGINT AS quiet_ms,
        sum(least(c.ms, h.still_ms))::BIGINT AS still_ms,
        sum(greatest(0, c.ms - (h.ms - h.worked_ms)))::BIGINT AS worked_ms,
            quantile_disc(h.memory_mb, 0.5)::BIGINT AS memory_mb
    FROM (SELECT gpu_uuid, hour, sum(ms)::BIGINT AS ms FROM claimed GROUP BY ALL) c JOIN hourly h USING (gpu_uuid, hour)
), islands AS (
    SELECT unit, started_at, ms, is_quiet,
        sum(CASE WHEN is_quiet THEN 0 ELSE 1 END) OVER (PARTITION BY unit
        ORDER BY started_at ROWS UNBOUNDED PRECEDING) AS island FROM told
), stretches AS (
    SELECT sum(ms) AS ms FROM islands WHERE is_quiet GROUP BY unit, island
)
SELECT (SELECT coalesce(sum(ms), 0)::BIGINT FROM claimed), coalesce(r.ms, 0)::BIGINT, r.quiet_ms, r.still_ms,
    (SELECT max(ms)::BIGINT FROM stretches), r.worked_ms,
    (SELECT coalesce(sum(t.ms), 0)::BIGINT FROM told t JOIN holds h ON h.gpu_uuid = t.gpu_uuid
        AND t.started_at >= h.held_at AND t.hour < h.idle_hour
     WHERE t.activity * 1000 > $active),
    r.memory_mb, coalesce((SELECT bool_or(stage = 'interactive') FROM runs WHERE run_id IN (SELECT unnest($runs))),
        false)
FROM read r
