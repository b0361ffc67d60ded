-- Who held a GPU when, of the hours in which more than one holder did: what is drawn there is theirs by the moment.
-- Times are microseconds UTC, weights divide a moment between those who share it, and a null run is nobody.
CREATE TABLE hour_holders (
    hour BIGINT NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    from_us BIGINT NOT NULL,
    until_us BIGINT NOT NULL,
    run_id VARCHAR,
    weight BIGINT NOT NULL
);

-- What a GPU drew is kept by who held it. For power_ms of that time its power tells, since no counter does.
ALTER TABLE energy_amounts ADD COLUMN run_id VARCHAR;
ALTER TABLE energy_amounts ADD COLUMN power_ms BIGINT;

-- What is booked already stays divided by time, as it was told.
CREATE TEMP TABLE energy_before AS
WITH held AS (
    SELECT hour, gpu_uuid, run_id, sum(milliseconds)::HUGEINT AS ms FROM ledger GROUP BY ALL
), shares AS (
    SELECT *, sum(ms) OVER (PARTITION BY hour, gpu_uuid) AS whole,
        sum(ms) OVER (PARTITION BY hour, gpu_uuid ORDER BY run_id NULLS FIRST ROWS UNBOUNDED PRECEDING) AS upto
    FROM held
)
SELECT e.hour, e.node, e.gpu_uuid,
    (coalesce(e.millijoules * upto // whole - e.millijoules * (upto - ms) // whole, e.millijoules))::BIGINT
        AS millijoules,
    (coalesce(e.measured_ms * upto // whole - e.measured_ms * (upto - ms) // whole, e.measured_ms))::BIGINT
        AS measured_ms,
    s.run_id, 0 AS power_ms
FROM energy_amounts e LEFT JOIN shares s USING (hour, gpu_uuid);
DELETE FROM energy_amounts;
INSERT INTO energy_amounts BY NAME SELECT * FROM energy_before ORDER BY ALL;
DROP TABLE energy_before;
-- The copy of a lake is made anew where this differs.
UPDATE amount_hours SET booked_batch = booked_batch - 1;
