-- What the runs' hosts moved in each hour while they were there, from the views of
-- analyzer/measures/traffic/matrix.py.
CREATE OR REPLACE TEMP TABLE traffic_new AS
WITH parts AS (
    SELECT *, from_us // 3600000000 * 3600000000 AS hour FROM traffic_segments
)
-- What the links of the runs' hosts carried. RDMA ports and Ethernet count different bytes.
SELECT s.hour, s.run_id, 'link' AS kind, s.node, s.attempt, s.shared AS is_shared,
    coalesce(l.link_kind, 'ethernet') <> 'ethernet' AS is_fabric,
    NULL::BOOLEAN AS is_own, NULL::VARCHAR AS peer,
    amount(sum(traffic_part(l.receive_bytes, l.started_at, l.ended_at, greatest(s.from_us, l.part_from),
        least(s.until_us, l.part_until)))) AS receive_bytes,
    amount(sum(traffic_part(l.transmit_bytes, l.started_at, l.ended_at, greatest(s.from_us, l.part_from),
        least(s.until_us, l.part_until)))) AS transmit_bytes
FROM parts s JOIN traffic_links l
    ON l.node = s.node AND l.started_at < least(s.until_us, l.part_until)
        AND l.ended_at > greatest(s.from_us, l.part_from)
GROUP BY ALL
UNION ALL
-- What flows were told of: the run's own by peer, other runs' as one. Flows that bear no run are nobody's.
SELECT s.hour, s.run_id, 'flow', s.node, s.attempt, NULL, coalesce(f.transport, 'tcp') = 'rdma_estimate',
    coalesce(n.run_id, f.run_id) = s.run_id AS own, CASE WHEN own THEN f.peer END,
    amount(coalesce(sum(traffic_part(f.receive_bytes, f.started_at, f.ended_at, greatest(s.from_us, f.part_from),
        least(s.until_us, f.part_until))), 0)),
    amount(coalesce(sum(traffic_part(f.transmit_bytes, f.started_at, f.ended_at, greatest(s.from_us, f.part_from),
        least(s.until_us, f.part_until))), 0))
FROM parts s JOIN traffic_flows f
    ON f.node = s.node AND f.started_at < least(s.until_us, f.part_until)
        AND f.ended_at > greatest(s.from_us, f.part_from)
LEFT JOIN traffic_names n ON n.name = f.run_id
WHERE NOT starts_with(f.run_id, 'unattributed/') AND f.peer <> s.node
GROUP BY ALL
UNION ALL
-- What the runs' GPUs sent to one another over NVLink; of a driver that tells one way alone, that.
SELECT s.hour, s.run_id, 'gpu_link', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    amount(sum(traffic_part(coalesce(g.transmit_bytes, g.receive_bytes), g.started_at, g.ended_at,
        greatest(s.from_us, g.part_from), least(s.until_us, g.part_until))))
FROM parts s
JOIN (SELECT DISTINCT run_id, node, gpu_uuid FROM traffic_holds WHERE gpu_uuid IS NOT NULL) h USING (run_id, node)
JOIN traffic_gpus g ON g.gpu_uuid = h.gpu_uuid AND g.started_at < least(s.until_us, g.part_until)
    AND g.ended_at > greatest(s.from_us, g.part_from) AND coalesce(g.transmit_bytes, g.receive_bytes) IS NOT NULL
GROUP BY ALL
