-- What flows were told of on those hosts: the run's own by peer, other runs' as one.
SELECT run_id, node, attempt, is_own, is_fabric, peer, sum(receive_bytes) AS receive_bytes,
    sum(transmit_bytes) AS transmit_bytes
FROM traffic_amounts WHERE kind = 'flow' AND list_contains($runs::VARCHAR[], run_id)
    AND hour >= $from_us // 3600000000 * 3600000000 AND hour < $until_us
GROUP BY ALL ORDER BY ALL
