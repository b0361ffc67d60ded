-- Hours that are closed keep their rows: what is known better now is a row of its own, dated now.

CREATE OR REPLACE TEMP TABLE shut AS
SELECT hour FROM ledger_hours WHERE hour >= $from_us AND hour < $until_us AND status IN ('closed', 'final');

-- What this chunk says anew: its GPUs, and whatever stands under the name of a host that is booked whole.
CREATE OR REPLACE TEMP TABLE rewritten AS
SELECT g.gpu_uuid, c.hour_ms * 1000 AS hour FROM chunk c JOIN gpus g USING (gid)
UNION
SELECT l.gpu_uuid, l.hour FROM ledger l JOIN whole_nodes w ON w.node = l.node AND w.hour_ms = l.hour // 1000
WHERE l.hour >= $from_us AND l.hour < $until_us;

-- only with shut
CREATE OR REPLACE TEMP TABLE differences AS
WITH before AS (
    SELECT {booked_columns}
    FROM ledger WHERE hour IN (SELECT hour FROM shut) AND (gpu_uuid, hour) IN (SELECT (gpu_uuid, hour) FROM rewritten)
    UNION ALL
    SELECT {booked_columns}
    FROM adjustments WHERE hour IN (SELECT hour FROM shut)
        AND (gpu_uuid, hour) IN (SELECT (gpu_uuid, hour) FROM rewritten)
), every AS (
    SELECT * EXCLUDE (milliseconds, cost_micros), -milliseconds AS milliseconds, -cost_micros AS cost_micros FROM before
    UNION ALL BY NAME
    SELECT * EXCLUDE (price_version) FROM priced WHERE hour IN (SELECT hour FROM shut)
)
SELECT * EXCLUDE (milliseconds, cost_micros), sum(milliseconds)::BIGINT AS milliseconds,
    sum(cost_micros)::BIGINT AS cost_micros
FROM every GROUP BY ALL HAVING sum(milliseconds) <> 0 OR coalesce(sum(cost_micros), 0) <> 0;

-- only with differences
INSERT INTO adjustments BY NAME
SELECT $now_us AS recorded_at, d.*,
    CASE WHEN h.rules_version <> $rules THEN 'the rules changed'
         WHEN h.price_version IS DISTINCT FROM $prices THEN 'a price changed'
         ELSE 'samples or allocations arrived or changed' END AS reason,
    $rules AS rules_version, $prices AS price_version
FROM differences d JOIN ledger_hours h USING (hour);

-- only with ledger
DELETE FROM ledger WHERE hour >= $from_us AND hour < $until_us AND hour NOT IN (SELECT hour FROM shut)
    AND (gpu_uuid, hour) IN (SELECT (gpu_uuid, hour) FROM rewritten);

INSERT INTO ledger BY NAME
SELECT p.*, $rules AS rules_version FROM priced p WHERE hour NOT IN (SELECT hour FROM shut)
ORDER BY {order};

-- Of hours with more than one holder who held when, by which what is drawn there is divided.
-- only with hour_holders
DELETE FROM hour_holders WHERE hour >= $from_us AND hour < $until_us AND hour NOT IN (SELECT hour FROM shut)
    AND (gpu_uuid, hour) IN (SELECT (gpu_uuid, hour) FROM rewritten);

INSERT INTO hour_holders
WITH mixed AS (
    SELECT gid, hour_ms FROM slices GROUP BY ALL HAVING count(DISTINCT coalesce(rid, -1)) > 1
)
SELECT s.hour_ms * 1000, g.gpu_uuid, s.from_ms * 1000, s.until_ms * 1000, k.run_id, sum(s.weight)::BIGINT
FROM slices s JOIN mixed USING (gid, hour_ms) JOIN gpus g USING (gid) LEFT JOIN run_keys k ON k.rid = s.rid
WHERE s.hour_ms * 1000 NOT IN (SELECT hour FROM shut)
GROUP BY ALL ORDER BY ALL
