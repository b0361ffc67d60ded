-- The price of what is owned in an hour, split over its rows by time: exact to the millionth, largest remainders first.
-- rates(sku, purchase_option, node_group, region, hour, micros, price_version) says what a GPU-hour costs; where it is
-- silent, so is the cost.

CREATE OR REPLACE TEMP TABLE priced AS
WITH owned_ms AS (
    SELECT o.gid, hour_ms * 1000 AS hour, sku, purchase_option, h.node_group, h.region,
        sum(until_ms - from_ms)::BIGINT AS owned_ms
    FROM owned_hours o JOIN gpus g USING (gid) {stood g.node o.hour_ms * 1000} GROUP BY ALL
), totals AS (
    SELECT g.gpu_uuid, o.hour, o.sku, o.purchase_option, o.owned_ms, r.price_version,
        ((o.owned_ms::HUGEINT * r.micros * 2 + 3600000) // 7200000)::BIGINT AS total
    FROM owned_ms o JOIN gpus g USING (gid)
    LEFT JOIN rates r ON r.hour = o.hour AND r.sku IS NOT DISTINCT FROM o.sku
        AND r.purchase_option IS NOT DISTINCT FROM o.purchase_option AND r.node_group IS NOT DISTINCT FROM o.node_group
        AND r.region IS NOT DISTINCT FROM o.region
), {split}
