-- Training runs by what their SMs and their tensor cores did in whole hours of work, of the GPUs that tell both.
SELECT r.run_id, r.name, r.team, sum(s.ms)::BIGINT AS ms, sum(s.sm * s.ms)::BIGINT // sum(s.ms)::BIGINT AS sm,
    sum(s.tensor * s.ms)::BIGINT // sum(s.ms)::BIGINT AS tensor,
    (sum(s.fp32 * s.ms) // sum(s.ms) FILTER (s.fp32 IS NOT NULL))::BIGINT AS fp32,
    (sum(s.fp64 * s.ms) // sum(s.ms) FILTER (s.fp64 IS NOT NULL))::BIGINT AS fp64
FROM notice_steady s JOIN runs r USING (run_id)
WHERE s.sm IS NOT NULL AND s.tensor IS NOT NULL AND r.stage IN ('training', 'pretraining', 'fine-tuning', 'alignment')
GROUP BY ALL ORDER BY r.name, r.run_id;

-- Kinds of GPU on which training worked and none told both, with the GPU time.
SELECT coalesce(k.sku, 'unknown') AS sku, sum(s.ms)::BIGINT AS ms FROM notice_steady s JOIN runs r USING (run_id)
LEFT JOIN (SELECT DISTINCT gpu_uuid, sku FROM ledger WHERE hour >= $start AND hour < $end) k USING (gpu_uuid)
WHERE r.stage IN ('training', 'pretraining', 'fine-tuning', 'alignment')
GROUP BY ALL HAVING count(s.sm + s.tensor) = 0 ORDER BY ALL
