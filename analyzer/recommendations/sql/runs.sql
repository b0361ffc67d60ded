-- Where runs are: hosts in the order of ranks, GPUs on each, what is known of the run, and what it may use and did use.
WITH latest AS (
    SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
), names AS (
    SELECT l.alias_run_id, coalesce(n.run_id, l.run_id) AS run_id
    FROM latest l LEFT JOIN latest n ON n.alias_run_id = l.run_id
), told AS (
    SELECT coalesce(o.run_id, a.run_id) AS run_id, a.* EXCLUDE (run_id)
    FROM allocations a LEFT JOIN names o ON o.alias_run_id = a.run_id
    WHERE started_at < $end AND coalesce(ended_at, $end) > $start
), placed AS (
    SELECT run_id, node, gpu_uuid, rank, ended_at FROM told WHERE gpu_uuid IS NOT NULL
    -- a host that was given back before the run's newest part began is no longer its own: an earlier attempt's
    QUALIFY ended_at IS NULL OR ended_at > max(started_at) OVER (PARTITION BY run_id)
), held AS (
    SELECT run_id, node, count(DISTINCT gpu_uuid) AS gpus, min(rank) AS first_rank,
        list(DISTINCT gpu_uuid ORDER BY gpu_uuid) AS uuids
    FROM placed GROUP BY ALL
), said AS (
    SELECT run_id, arg_max(account, batch) AS account, arg_max(labels, batch) AS labels,
        count(DISTINCT member) FILTER (gpu_uuid IS NOT NULL) AS members
    FROM told GROUP BY run_id
), counted AS (
    -- all of a window at once: to parse it costs most
    SELECT run_id, (counts->>['$.cores_milli', '$.workers', '$.sm_ms', '$.ms', '$.activity', '$.activity_most',
        '$.power', '$.power_most', '$.host_memory_spare', '$.host_pressure_memory'])::BIGINT[] AS c
    FROM run_windows WHERE window_start >= $start AND window_start < $end
), shown AS (
    SELECT run_id, quantile_disc(c[1], 0.5) / 1000 AS cores, max(c[2]) AS workers,
        -- By SM activity where the chip tells it, else by power: what only spins for its peers has computed nothing.
        bool_or(CASE WHEN c[3] * 2 >= c[4] THEN greatest(c[5], c[6]) > $spinning
            WHEN c[7] IS NOT NULL THEN greatest(c[7], c[8]) > $spinning_power END) AS has_computed,
        bool_or(c[9] < $spare) AS lacks_memory, bool_or(c[10] >= $waiting) AS waits_for_memory
    FROM counted GROUP BY run_id
), spent AS (
    SELECT run_id, sum(milliseconds)::BIGINT AS held_ms, sum(cost_micros)::BIGINT AS held_micros,
        coalesce(sum(milliseconds) FILTER (state = 'productive'), 0)::BIGINT AS productive_ms,
        coalesce(sum(cost_micros) FILTER (state = 'productive'), 0)::BIGINT AS productive_micros
    FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL GROUP BY run_id
), by_gpu AS (
    SELECT run_id, gpu_uuid, sum(milliseconds) FILTER (cause = 'never_used') AS unused_ms,
        bool_or(state = 'held_idle') AS is_idle,
        bool_or(state NOT IN ('held_idle', 'starting', 'unobserved', 'broken')) AS has_worked
    FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL GROUP BY ALL
), unused AS (
    SELECT run_id, coalesce(sum(unused_ms) FILTER (NOT has_worked), 0)::BIGINT AS never_used_ms,
        count(*) FILTER (is_idle) AS idle_gpus
    FROM by_gpu GROUP BY run_id
), clock AS (
    -- By the clock: until when something other than idleness or a hang was on its GPUs, and until when that is known.
    -- It looks
    -- beyond the period, since what fell quiet in it may work by now; what was not measured is no idleness.
    SELECT run_id, max(bucket_start)
        FILTER (state <> 'held_idle' AND (state <> 'communicating' OR cause IS DISTINCT FROM 'hang')) AS active_at,
        min(bucket_start) AS first_at, max(bucket_start) AS known_at
    FROM run_timeline WHERE bucket_start >= $start GROUP BY run_id
)
SELECT h.run_id, list(h.node ORDER BY h.first_rank, h.node), sum(h.gpus)::BIGINT, min(c.cores),
    list(h.gpus ORDER BY h.first_rank, h.node), flatten(list(h.uuids ORDER BY h.first_rank, h.node)),
    any_value(r.ended_at) IS NULL, any_value(r.name), any_value(r.team), any_value(r.stage), any_value(r.queue),
    any_value(s.account), any_value(CASE WHEN json_valid(s.labels) THEN s.labels->>'$.kind' END), any_value(s.members),
        min(c.workers), any_value(p.held_ms),
    any_value(p.held_micros), any_value(p.productive_ms), any_value(p.productive_micros),
    any_value(u.never_used_ms), any_value(r.exit_status), any_value(r.model),
    (any_value(k.active_at) + 600000000 - any_value(r.started_at)) // 1000000,
        (any_value(k.known_at) - coalesce(any_value(k.active_at), any_value(k.first_at))) // 1000000,
    any_value(c.has_computed),
    any_value(coalesce(c.lacks_memory OR c.waits_for_memory, c.lacks_memory, c.waits_for_memory)),
    any_value(u.idle_gpus)
FROM held h LEFT JOIN shown c USING (run_id) LEFT JOIN runs r USING (run_id) LEFT JOIN said s USING (run_id)
LEFT JOIN spent p USING (run_id) LEFT JOIN unused u USING (run_id) LEFT JOIN clock k USING (run_id)
GROUP BY h.run_id ORDER BY h.run_id
