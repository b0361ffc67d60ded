-- What closed hours whose samples are gone would cost by the prices of now: their booked time, split as cost.sql splits
-- it.
-- Reads booked_now and rates (publishing.py).
CREATE OR REPLACE TEMP TABLE repriced AS
WITH totals AS (
    SELECT b.gpu_uuid, b.hour, b.sku, b.purchase_option, sum(b.milliseconds)::BIGINT AS owned_ms,
        ((sum(b.milliseconds)::HUGEINT * any_value(r.micros) * 2 + 3600000) // 7200000)::BIGINT AS total
    FROM booked_now b {stood b.node b.hour}
    LEFT JOIN rates r ON r.hour = b.hour AND r.sku IS NOT DISTINCT FROM b.sku
        AND r.purchase_option IS NOT DISTINCT FROM b.purchase_option AND r.node_group IS NOT DISTINCT FROM h.node_group
        AND r.region IS NOT DISTINCT FROM h.region
    GROUP BY b.gpu_uuid, b.hour, b.sku, b.purchase_option
), {split};

INSERT INTO adjustments BY NAME
SELECT * EXCLUDE (now_micros) REPLACE (0 AS milliseconds,
    coalesce(now_micros, 0) - coalesce(cost_micros, 0) AS cost_micros),
    $now_us AS recorded_at, 'a price changed' AS reason, $rules AS rules_version, $prices AS price_version
FROM repriced WHERE coalesce(now_micros, 0) <> coalesce(cost_micros, 0);

UPDATE ledger_hours SET price_version = $prices,
    input_digest = concat_ws(' ', rules_version, $prices, split_part(input_digest, ' ', 3))
WHERE hour BETWEEN $first AND $last AND hour IN (SELECT hour FROM reprice_due)
