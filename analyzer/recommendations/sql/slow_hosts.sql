-- The hosts on which each run lost most of what its clocks lost to heat or hardware. A limit of power is no host's:
-- another would be as slow.
WITH lost AS (
    SELECT run_id, node, sum(milliseconds)::BIGINT AS ms FROM ledger
    WHERE hour >= $start AND hour < $end AND state = 'throttled' AND cause <> 'power' AND run_id IS NOT NULL
        GROUP BY ALL
)
SELECT run_id, list(node ORDER BY node) FROM lost
WHERE ms * 10 >= (SELECT max(m.ms) FROM lost m WHERE m.run_id = lost.run_id) GROUP BY run_id
