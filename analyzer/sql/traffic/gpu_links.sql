-- What the runs' GPUs sent to one another over NVLink; of a driver that tells one way alone, that.
SELECT s.run_id,
    sum(traffic_part(coalesce(g.transmit_bytes, g.receive_bytes), g.started_at, g.ended_at, greatest(s.from_us, g.part_from), least(s.until_us, g.part_until))) AS bytes
FROM traffic_segments s
JOIN (SELECT DISTINCT run_id, node, gpu_uuid FROM traffic_holds WHERE gpu_uuid IS NOT NULL) h USING (run_id, node)
JOIN traffic_gpus g ON g.gpu_uuid = h.gpu_uuid AND g.started_at < least(s.until_us, g.part_until)
    AND g.ended_at > greatest(s.from_us, g.part_from)
GROUP BY ALL ORDER BY ALL
