-- Of each run the GPUs on which no kernel of it ever ran, although it holds more memory there than a context takes: a
-- rank that waits, or that others wait for. By its processes; where none of them was seen on a GPU, by all that is in
-- use there. Null where that is not known of one. Asked of hours, which are not there where nobody rolls up,
-- and of the samples after them.
WITH names AS (SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id),
never AS (
    SELECT run_id, gpu_uuid FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL
    GROUP BY ALL HAVING bool_and(state IN ('held_idle', 'starting', 'unobserved', 'broken'))
), processes AS (
    SELECT coalesce(n.run_id, s.run_id) AS run_id, gpu_uuid, max({most}) AS bytes
    FROM {processes} s LEFT JOIN names n ON n.alias_run_id = s.run_id
    WHERE started_at >= $start AND started_at < $end AND gpu_uuid IS NOT NULL GROUP BY ALL
), gauges AS (
    SELECT v.run_id, v.gpu_uuid, max(g.{most}) AS bytes FROM never v
    JOIN ledger l USING (run_id, gpu_uuid) JOIN {gpus} g ON g.gpu_uuid = l.gpu_uuid
        AND g.started_at // 3600000000 * 3600000000 = l.hour
    WHERE l.hour >= $start AND l.hour < $end AND g.started_at >= $start AND g.started_at < $end
        AND g.parent_uuid IS NULL GROUP BY ALL
), held AS (
    SELECT v.run_id, CASE WHEN p.gpu_uuid IS NOT NULL THEN coalesce(p.bytes > $held_mb * 1000000, true)
        WHEN v.run_id IN (SELECT run_id FROM processes) THEN false ELSE g.bytes > $held_mb * 1000000 END AS is_rank
    FROM never v LEFT JOIN processes p USING (run_id, gpu_uuid) LEFT JOIN gauges g USING (run_id, gpu_uuid)
)
SELECT run_id, CASE WHEN count(*) = count(is_rank) THEN count(*) FILTER (is_rank) END FROM held GROUP BY run_id
