-- What the links of the runs' hosts carried while they were there. RDMA ports and Ethernet count different bytes.
SELECT s.run_id, s.node, s.attempt, s.shared, coalesce(l.link_kind, 'ethernet') <> 'ethernet' AS fabric,
    sum(traffic_part(l.receive_bytes, l.started_at, l.ended_at, greatest(s.from_us, l.part_from), least(s.until_us, l.part_until))) AS receive_bytes,
    sum(traffic_part(l.transmit_bytes, l.started_at, l.ended_at, greatest(s.from_us, l.part_from), least(s.until_us, l.part_until))) AS transmit_bytes
FROM traffic_segments s JOIN traffic_links l
    ON l.node = s.node AND l.started_at < least(s.until_us, l.part_until) AND l.ended_at > greatest(s.from_us, l.part_from)
GROUP BY ALL ORDER BY ALL
