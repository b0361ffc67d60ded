-- What is owned in each hour that is no longer provisional, counted from the declarations, beside what is booked.
-- Either
-- may be there without the other: time that nobody owns is as wrong as time that nobody booked.
CREATE OR REPLACE TEMP TABLE owned_and_booked AS
WITH settled AS (
    SELECT hour FROM ledger_hours WHERE status <> 'provisional'
), due AS (
    SELECT g.gpu_uuid, s.hour,
        sum(least(o.until_ms, s.hour // 1000 + 3600000) - greatest(o.from_ms, s.hour // 1000))::BIGINT AS owned_ms
    FROM owned o JOIN gpus g USING (gid) JOIN settled s ON o.from_ms < s.hour // 1000 + 3600000
        AND o.until_ms > s.hour // 1000
    WHERE o.until_ms > o.from_ms GROUP BY ALL
), booked AS (
    SELECT gpu_uuid, hour, sum(milliseconds)::BIGINT AS booked_ms,
        (sum(milliseconds) FILTER (is_adjustment))::BIGINT AS adjusted_ms
    FROM (SELECT hour, gpu_uuid, milliseconds, false AS is_adjustment FROM ledger
          UNION ALL SELECT hour, gpu_uuid, milliseconds, true FROM adjustments)
    WHERE hour IN (SELECT hour FROM settled) GROUP BY ALL
)
SELECT gpu_uuid, hour, coalesce(owned_ms, 0) AS owned_ms, coalesce(booked_ms, 0) AS booked_ms,
    coalesce(adjusted_ms, 0) AS adjusted_ms
FROM due FULL JOIN booked USING (gpu_uuid, hour)
