-- GPUs that lost clock for power in the period: their limit, that of their make or else of most of their kind, and what
-- they drew meanwhile.
WITH lost AS (
    SELECT gpu_uuid, any_value(node) AS node, any_value(sku) AS sku, max(hour) AS last_hour FROM ledger
    WHERE hour >= $start AND hour < $end AND state = 'throttled' AND cause = 'power' GROUP BY gpu_uuid
), limits AS (
    SELECT gpu_uuid, arg_max(sku, (started_at, batch)) AS sku, arg_max(power_limit_watts, (started_at, batch)) AS watts
    FROM inventory WHERE gpu_uuid IS NOT NULL AND parent_uuid IS NULL GROUP BY gpu_uuid
), usual AS (
    SELECT sku, mode(watts ORDER BY watts) AS watts FROM limits WHERE watts IS NOT NULL GROUP BY sku
), known AS (
    SELECT i.gpu_uuid, i.watts, coalesce(usual_limit(i.sku, i.watts), u.watts) AS usual_watts
    FROM limits i LEFT JOIN usual u USING (sku)
), draws AS (
    SELECT s.gpu_uuid, quantile_disc(power_watts, 0.5) AS watts
    FROM gpu_samples s JOIN lost l ON l.gpu_uuid = s.gpu_uuid AND s.started_at >= l.last_hour
        AND s.started_at < l.last_hour + 3600000000
    WHERE s.throttle_power_seconds > 0 GROUP BY s.gpu_uuid
)
SELECT l.gpu_uuid, l.node, i.watts, if(reaches_limit(i.watts, i.usual_watts), i.watts, i.usual_watts), d.watts,
    NOT draws_limit(d.watts, i.watts)
FROM lost l LEFT JOIN known i USING (gpu_uuid) LEFT JOIN draws d USING (gpu_uuid) ORDER BY l.gpu_uuid
