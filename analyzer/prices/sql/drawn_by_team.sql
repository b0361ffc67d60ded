-- What GPUs drew, by who held them. Reads pricing_drawn (hour, node, run_id, millijoules).
WITH teams AS (
    SELECT l.hour, l.run_id, any_value(team) AS team FROM {booked ledger} l
    WHERE l.hour >= $start AND l.hour < $end AND l.run_id IS NOT NULL GROUP BY ALL
)
SELECT t.team, d.run_id IS NOT NULL AS is_held, h.node_group, d.hour, sum(millijoules)::HUGEINT
FROM pricing_drawn d LEFT JOIN teams t ON t.hour = d.hour AND t.run_id = d.run_id {placed d} GROUP BY ALL ORDER BY ALL
