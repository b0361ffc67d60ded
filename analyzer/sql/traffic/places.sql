-- Of each host the last word on each part of its place: an agent that knows no rack does not take back what labels said.
SELECT node, arg_max(rack, (started_at, batch)), arg_max(block, (started_at, batch)),
    arg_max(zone, (started_at, batch)), arg_max(region, (started_at, batch))
FROM inventory WHERE gpu_uuid IS NULL GROUP BY node ORDER BY node
