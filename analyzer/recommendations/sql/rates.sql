-- What a GPU-hour of each kind and purchase option came to in the period, millionths; unpriced kinds are left out.
SELECT sku, purchase_option, (sum(cost_micros) * 3600000 // sum(milliseconds))::BIGINT FROM ledger
WHERE hour >= $start AND hour < $end AND sku IS NOT NULL AND cost_micros IS NOT NULL GROUP BY ALL ORDER BY ALL
