-- What one run's GPUs drew for it, by node group and hour: of an hour's joules its part of the time for which the GPU
-- was
-- booked, in whole millijoules, as drawn_by_team.sql divides them. Reads pricing_drawn (hour, node, gpu_uuid,
-- millijoules, ms).
WITH booked AS (
    SELECT hour, gpu_uuid, sum(milliseconds) FILTER (run_id = $run)::BIGINT AS own_ms,
        sum(milliseconds)::BIGINT AS whole_ms
    FROM ledger WHERE hour >= $start AND hour < $end AND gpu_uuid IN (SELECT gpu_uuid FROM pricing_drawn) GROUP BY ALL
)
SELECT h.node_group, d.hour, sum(millijoules * own_ms // whole_ms)::HUGEINT, sum(ms * own_ms // whole_ms)::BIGINT
FROM pricing_drawn d JOIN booked b ON b.hour = d.hour AND b.gpu_uuid = d.gpu_uuid {placed d} WHERE own_ms > 0
    GROUP BY ALL ORDER BY ALL
