-- Where each host stood at the end of a span.
SELECT l.node, h.rack, h.block, h.zone, h.region FROM (
    SELECT DISTINCT node, ($until_us::BIGINT - 1) // 3600000000 * 3600000000 AS hour FROM inventory
        WHERE gpu_uuid IS NULL
) l {placed l} ORDER BY l.node
