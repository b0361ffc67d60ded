-- The last word of schedulers on each host in the period.
SELECT node, arg_max(state, (ended_at, batch)) AS state, arg_max(reason, (ended_at, batch)) AS reason
FROM node_states WHERE started_at < $end AND ended_at > $start GROUP BY node ORDER BY node
