-- How long hosts took to wake, in [$since, $end): from the first word that one powers up until the first that it is up.
WITH told AS (
    SELECT node, started_at, state, reason IS NOT DISTINCT FROM $powering_up AS is_waking,
        count(*) FILTER (reason IS DISTINCT FROM $powering_up) OVER (PARTITION BY node ORDER BY started_at,
            batch) AS turn
    FROM node_states WHERE started_at >= $since AND started_at < $end
), begun AS (
    SELECT node, turn, min(started_at) AS from_us FROM told WHERE is_waking GROUP BY ALL
)
SELECT count(*), quantile_disc(t.started_at - b.from_us, 0.5), quantile_disc(t.started_at - b.from_us, 0.9)
FROM begun b JOIN told t ON t.node = b.node AND t.turn = b.turn + 1 AND NOT t.is_waking AND t.state = 'up';
