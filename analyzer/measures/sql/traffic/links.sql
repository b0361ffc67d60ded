-- What the links of the runs' hosts carried while they were there. RDMA ports and Ethernet count different bytes.
SELECT run_id, node, attempt, is_shared, is_fabric, sum(receive_bytes) AS receive_bytes,
    sum(transmit_bytes) AS transmit_bytes
FROM traffic_amounts WHERE kind = 'link' AND list_contains($runs::VARCHAR[], run_id)
    AND hour >= $from_us // 3600000000 * 3600000000 AND hour < $until_us
GROUP BY ALL ORDER BY ALL
