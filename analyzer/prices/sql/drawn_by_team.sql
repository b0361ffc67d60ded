-- What GPUs drew, by who held them: an hour's joules are divided by the time each held the GPU in it, in whole
-- millijoules,
-- what does not divide going to whoever held it longest. Reads pricing_drawn (hour, node, gpu_uuid, millijoules, ms).
WITH held AS (
    SELECT l.hour, l.gpu_uuid, team, l.run_id IS NOT NULL AS is_held, sum(milliseconds)::BIGINT AS held_ms
    FROM {booked ledger} l WHERE l.hour >= $start AND l.hour < $end GROUP BY ALL
), parts AS (
    SELECT d.hour, d.node, d.gpu_uuid, team, coalesce(is_held, false) AS is_held, millijoules,
        CASE WHEN held_ms IS NULL THEN millijoules
            ELSE millijoules * held_ms // sum(held_ms) OVER (PARTITION BY d.hour, d.node, d.gpu_uuid) END AS part,
        row_number() OVER (PARTITION BY d.hour, d.node, d.gpu_uuid ORDER BY held_ms DESC, is_held, team) = 1 AS longest
    FROM pricing_drawn d LEFT JOIN held h USING (hour, gpu_uuid)
), whole AS (
    SELECT *, part + CASE WHEN longest
        THEN millijoules - sum(part) OVER (PARTITION BY hour, node, gpu_uuid) ELSE 0 END AS millijoules_held
    FROM parts
)
SELECT team, is_held, h.node_group, w.hour, sum(millijoules_held)::HUGEINT
FROM whole w {placed w} GROUP BY ALL ORDER BY ALL
