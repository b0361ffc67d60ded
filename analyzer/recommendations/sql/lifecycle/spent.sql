-- GPU time and money of these runs ($runs) by kind of GPU, on either side of $cut (a whole hour).
SELECT run_id, sku, hour >= $cut AS is_after, sum(milliseconds)::BIGINT,
    CASE WHEN count(*) = count(cost_micros) THEN sum(cost_micros)::BIGINT END
FROM ledger WHERE run_id IN (SELECT unnest($runs::VARCHAR[])) AND hour >= $from AND hour < $until
GROUP BY ALL ORDER BY ALL;
