-- What one run's GPUs drew for it, by node group and hour: of an hour's joules its part of the time for which the GPU was
-- booked, in whole millijoules, as drawn_by_team.sql divides them. Reads pricing_drawn (hour, node, gpu_uuid, millijoules, ms).
WITH host AS (
    SELECT node, arg_max(node_group, (started_at, batch)) AS node_group FROM inventory WHERE node_group IS NOT NULL GROUP BY node
), booked AS (
    SELECT hour, gpu_uuid, sum(milliseconds) FILTER (run_id = $run)::BIGINT AS own_ms, sum(milliseconds)::BIGINT AS whole_ms
    FROM ledger WHERE hour >= $start AND hour < $end AND gpu_uuid IN (SELECT gpu_uuid FROM pricing_drawn) GROUP BY ALL
)
SELECT node_group, hour, sum(millijoules * own_ms // whole_ms)::HUGEINT, sum(ms * own_ms // whole_ms)::BIGINT
FROM pricing_drawn JOIN booked USING (hour, gpu_uuid) LEFT JOIN host USING (node) WHERE own_ms > 0 GROUP BY ALL ORDER BY ALL
