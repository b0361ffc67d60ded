-- What each run received over the network from each other host, of the flows that hosts attribute to it, as it was
-- booked.
SELECT run_id AS run, peer, sum(receive_bytes)::BIGINT AS bytes FROM traffic_amounts
WHERE hour >= $start AND hour < $end AND kind = 'flow' AND is_own AND NOT is_fabric
GROUP BY ALL HAVING bytes > 0 ORDER BY ALL
