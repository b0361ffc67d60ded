-- What flows were told of on those hosts: the run's own by peer, other runs' as one. Flows that bear no run are nobody's.
SELECT s.run_id, s.node, s.attempt, coalesce(n.run_id, f.run_id) = s.run_id AS own,
    coalesce(f.transport, 'tcp') = 'rdma_estimate' AS fabric, CASE WHEN own THEN f.peer END AS peer,
    coalesce(sum(traffic_part(f.receive_bytes, f.started_at, f.ended_at, greatest(s.from_us, f.part_from), least(s.until_us, f.part_until))), 0) AS receive_bytes,
    coalesce(sum(traffic_part(f.transmit_bytes, f.started_at, f.ended_at, greatest(s.from_us, f.part_from), least(s.until_us, f.part_until))), 0) AS transmit_bytes
FROM traffic_segments s JOIN traffic_flows f
    ON f.node = s.node AND f.started_at < least(s.until_us, f.part_until) AND f.ended_at > greatest(s.from_us, f.part_from)
LEFT JOIN traffic_names n ON n.name = f.run_id
WHERE NOT starts_with(f.run_id, 'unattributed/') AND f.peer <> s.node
GROUP BY ALL ORDER BY ALL
