-- What closed hours whose samples are gone would cost by the prices of now: their booked time, divided as cost.sql divides it.
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
), based AS (
    SELECT b.*, t.total, (t.total::HUGEINT * b.milliseconds // t.owned_ms)::BIGINT AS base,
        t.total::HUGEINT * b.milliseconds % t.owned_ms AS remainder
    FROM booked_now b JOIN totals t ON t.gpu_uuid = b.gpu_uuid AND t.hour = b.hour
        AND t.sku IS NOT DISTINCT FROM b.sku AND t.purchase_option IS NOT DISTINCT FROM b.purchase_option
)
SELECT * EXCLUDE (total, base, remainder), base + CASE WHEN row_number() OVER (
        PARTITION BY gpu_uuid, hour, sku, purchase_option
        ORDER BY remainder DESC, run_id, attempt, state, cause, would_be, caused_by, suspicion, confidence, shared)
    <= total - sum(base) OVER (PARTITION BY gpu_uuid, hour, sku, purchase_option) THEN 1 ELSE 0 END AS now_micros
FROM based;

INSERT INTO adjustments BY NAME
SELECT * EXCLUDE (now_micros) REPLACE (0 AS milliseconds, coalesce(now_micros, 0) - coalesce(cost_micros, 0) AS cost_micros),
    $now_us AS recorded_at, 'a price changed' AS reason, $rules AS rules_version, $prices AS price_version
FROM repriced WHERE coalesce(now_micros, 0) <> coalesce(cost_micros, 0);

UPDATE ledger_hours SET price_version = $prices,
    input_digest = concat_ws(' ', rules_version, $prices, split_part(input_digest, ' ', 3))
WHERE hour BETWEEN $first AND $last AND hour IN (SELECT hour FROM reprice_due)
