-- A run's yardstick is made of what came before: what touches an hour of it touches the later ones, of all its GPUs.
-- only with ledger_hours
INSERT INTO due
WITH begins AS (
    SELECT h.rid, min(d.hour_ms) AS hour_ms FROM due d JOIN holds h ON h.gid = d.gid AND h.from_ms < d.hour_ms + 3600000
        AND h.until_ms > d.hour_ms GROUP BY h.rid
), together AS (
    -- What a service needs is its busiest hour so far, of all its runs.
    SELECT rid, hour_ms FROM begins
    UNION SELECT p.rid, min(b.hour_ms) FROM begins b JOIN service_runs r USING (rid) JOIN service_runs p USING (sid)
        GROUP BY p.rid
), later AS (
    SELECT DISTINCT h.gid,
        unnest(range(greatest(b.hour_ms, h.from_ms // 3600000 * 3600000), h.until_ms, 3600000)) AS hour_ms
    FROM together b JOIN holds h USING (rid) WHERE h.until_ms > b.hour_ms
)
SELECT gid, hour_ms FROM later WHERE hour_ms * 1000 IN (SELECT hour FROM ledger_hours) EXCEPT SELECT gid, hour_ms
    FROM due
