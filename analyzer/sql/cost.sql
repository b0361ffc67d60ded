-- The price of what is owned in an hour, split over its rows by time: exact to the millionth, largest remainders first.
-- rates(sku, purchase_option, node_group, region, hour, micros, price_version) says what a GPU-hour costs; where it is silent, so is the cost.

CREATE OR REPLACE TEMP TABLE priced AS
WITH owned_ms AS (
    SELECT o.gid, hour_ms * 1000 AS hour, sku, purchase_option, h.node_group, h.region, sum(until_ms - from_ms)::BIGINT AS owned_ms
    FROM owned_hours o JOIN gpus g USING (gid) {stood g.node o.hour_ms * 1000} GROUP BY ALL
), totals AS (
    SELECT g.gpu_uuid, o.hour, o.sku, o.purchase_option, o.owned_ms, r.price_version,
        ((o.owned_ms::HUGEINT * r.micros * 2 + 3600000) // 7200000)::BIGINT AS total
    FROM owned_ms o JOIN gpus g USING (gid)
    LEFT JOIN rates r ON r.hour = o.hour AND r.sku IS NOT DISTINCT FROM o.sku
        AND r.purchase_option IS NOT DISTINCT FROM o.purchase_option AND r.node_group IS NOT DISTINCT FROM o.node_group
        AND r.region IS NOT DISTINCT FROM o.region
), based AS (
    SELECT l.*, t.total, t.price_version, (t.total::HUGEINT * l.milliseconds // t.owned_ms)::BIGINT AS base,
        t.total::HUGEINT * l.milliseconds % t.owned_ms AS remainder
    FROM ledger_here l JOIN totals t ON t.gpu_uuid = l.gpu_uuid AND t.hour = l.hour
        AND t.sku IS NOT DISTINCT FROM l.sku AND t.purchase_option IS NOT DISTINCT FROM l.purchase_option
)
SELECT * EXCLUDE (total, base, remainder), base + CASE WHEN row_number() OVER (
        PARTITION BY gpu_uuid, hour, sku, purchase_option
        ORDER BY remainder DESC, run_id, attempt, state, cause, would_be, caused_by, suspicion, confidence, shared)
    <= total - sum(base) OVER (PARTITION BY gpu_uuid, hour, sku, purchase_option) THEN 1 ELSE 0 END AS cost_micros
FROM based
