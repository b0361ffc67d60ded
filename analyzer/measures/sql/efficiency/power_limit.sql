-- The lowest power limit of a run's GPUs, by the latest word on each; null where one of them tells none.
SELECT CASE WHEN count(*) = count(watts) THEN min(watts) END
FROM (SELECT DISTINCT gpu_uuid FROM ledger WHERE run_id = $run) LEFT JOIN (
    SELECT gpu_uuid, arg_max(power_limit_watts, started_at) AS watts FROM inventory WHERE gpu_uuid IS NOT NULL
        GROUP BY ALL) USING (gpu_uuid)
