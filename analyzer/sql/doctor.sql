-- What is owned in each hour that is no longer provisional, counted from the declarations, beside what is booked.
CREATE OR REPLACE TEMP TABLE owned_and_booked AS
WITH settled AS (
    SELECT hour // 1000 AS hour_ms FROM ledger_hours WHERE status <> 'provisional'
), due AS (
    SELECT o.gid, s.hour_ms, sum(least(o.until_ms, s.hour_ms + 3600000) - greatest(o.from_ms, s.hour_ms))::BIGINT AS owned_ms
    FROM owned o JOIN settled s ON o.from_ms < s.hour_ms + 3600000 AND o.until_ms > s.hour_ms GROUP BY ALL
), booked AS (
    SELECT g.gid, l.hour // 1000 AS hour_ms, sum(l.milliseconds)::BIGINT AS booked_ms
    FROM (SELECT hour, gpu_uuid, milliseconds FROM ledger UNION ALL SELECT hour, gpu_uuid, milliseconds FROM adjustments) l
    JOIN gpus g USING (gpu_uuid) GROUP BY ALL
)
SELECT d.gid, d.hour_ms, d.owned_ms, b.booked_ms FROM due d LEFT JOIN booked b USING (gid, hour_ms)
