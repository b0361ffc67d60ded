-- Hours whose amounts are booked anew: those that anything touches, and those of the ledger that have none yet. Hours
-- whose
-- samples have begun to expire ($judgeable) keep what is booked of them.
CREATE OR REPLACE TEMP TABLE amount_due AS
WITH arrived AS (
    SELECT started_at, ended_at, batch FROM service_samples WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at, batch FROM progress WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at, batch FROM network_samples WHERE batch > $batch
    UNION ALL SELECT started_at, ended_at, batch FROM flow_samples WHERE batch > $batch
), touched AS (
    SELECT DISTINCT started_at // 3600000000 AS first_hour,
        (greatest(ended_at, started_at + 1) - 1) // 3600000000 AS last_hour
    FROM arrived a JOIN marks m ON m.collector = a.batch & 255 AND a.batch > m.batch
    UNION SELECT hour, (last_at - 1) // 3600000000 FROM newly_sampled
), hours AS (
    SELECT unnest(range(first_hour, last_hour + 1)) * 3600000000 AS hour FROM touched
    UNION SELECT hour_ms * 1000 FROM due
)
SELECT DISTINCT hour FROM hours WHERE hour >= $judgeable OR hour NOT IN (SELECT hour FROM amount_hours);

-- Hours that had closed before this pass with what is booked of them: they keep it.
CREATE OR REPLACE TEMP TABLE amount_shut AS
SELECT hour FROM ledger_hours JOIN amount_hours USING (hour) WHERE status IN ('closed', 'final')
