-- Which hours of which GPUs must be booked anew: those that anything touches that came since the last pass.
-- `touched` holds spans of hours, numbered from 1970; the tables of hosts have been put into it before.

-- A GPU's own samples, and what they say of the hours before and after: quiet is seen whole, and a first sign of work is the
-- start of it only where more follows. A GPU at work says nothing of the hour before, unless it comes late: what lay on both
-- sides of it then had one quiet between them.
INSERT INTO touched
WITH fresh AS (
    SELECT s.gpu_uuid, s.started_at, s.ended_at, coalesce(s.sm_active_ratio, s.utilization_ratio, 0) * 1000 < $quiet_permille + 1 AS is_quiet, s.started_at < g.last_at AS is_late
    FROM gpu_samples s JOIN marks m ON m.collector = s.batch & 255 AND s.batch > m.batch LEFT JOIN gpus_sighted g USING (gpu_uuid)
    WHERE s.batch > $batch
), spans AS (
    SELECT DISTINCT gpu_uuid, if(is_quiet OR is_late, started_at - $margin_us, started_at) // 3600000000 AS first_hour,
        (if(is_quiet OR is_late, ended_at + $margin_us, ended_at) - 1) // 3600000000 AS last_hour FROM fresh
), begun AS (
    SELECT DISTINCT f.gpu_uuid, (f.started_at - $margin_us) // 3600000000 AS first_hour, f.ended_at // 3600000000 AS last_hour
    FROM fresh f JOIN allocation_now a ON a.gpu_uuid = f.gpu_uuid AND f.started_at // 1000 BETWEEN a.from_ms AND a.from_ms + 2 * $starting_ms
    WHERE f.started_at % 3600000000 < $margin_us AND NOT f.is_quiet
)
SELECT u.gid, s.first_hour, s.last_hour FROM (SELECT * FROM spans UNION SELECT * FROM begun) s JOIN units u ON u.uuid = s.gpu_uuid;

-- What a serving stack said touches the GPUs of its run, whosever host read it, and the silence around it.
INSERT INTO touched
SELECT DISTINCT u.gid, s.first_hour, s.last_hour FROM (
    SELECT DISTINCT k.rid, (t.started_at - $margin_us) // 3600000000 AS first_hour, (t.ended_at + $margin_us - 1) // 3600000000 AS last_hour
    FROM service_samples t JOIN marks m ON m.collector = t.batch & 255 AND t.batch > m.batch
    JOIN run_names k ON k.run_id = t.run_id AND t.started_at >= k.from_us AND t.started_at < k.until_us WHERE t.batch > $batch
) s JOIN service_runs USING (rid) JOIN run_keys k USING (rid) JOIN allocation_now a USING (run_id) JOIN units u ON u.uuid = a.gpu_uuid;

-- Where nobody declares what is owned, a GPU is from when it was first seen until it was last seen: what lies between.
INSERT INTO touched
SELECT u.gid, least(n.first_at, s.first_at) // 3600000000, greatest(n.last_at, s.last_at) // 3600000000
FROM newly_sighted n JOIN gpus_sighted s USING (gpu_uuid) JOIN units u ON u.uuid = n.gpu_uuid
WHERE n.first_at < s.first_at OR n.last_at > s.last_at + 3600000000;

-- A GPU that is seen for the first time was not "never seen" before: silence has another name then.
INSERT INTO touched
SELECT u.gid, k.from_us // 3600000000, k.until_us // 3600000000
FROM newly_sighted n ANTI JOIN gpus_sighted s USING (gpu_uuid) JOIN units u ON u.uuid = n.gpu_uuid CROSS JOIN known k;

-- An allocation touches what it names, and all that its run holds: by every name that leads to the run.
INSERT INTO touched
WITH named AS (
    SELECT a.alias_run_id FROM run_aliases a JOIN marks m ON m.collector = a.batch & 255 AND a.batch > m.batch
    UNION SELECT l.alias_run_id FROM run_aliases l JOIN run_aliases r ON r.alias_run_id = l.run_id
        JOIN marks m ON m.collector = r.batch & 255 AND r.batch > m.batch
), fresh AS (
    SELECT a.run_id, a.gpu_uuid, a.node, a.started_at, a.ended_at
    FROM allocations a JOIN marks m ON m.collector = a.batch & 255 AND a.batch > m.batch WHERE a.started_at IS NOT NULL
    UNION SELECT a.run_id, a.gpu_uuid, a.node, a.started_at, a.ended_at
        FROM allocations a JOIN named ON alias_run_id = a.run_id WHERE a.started_at IS NOT NULL
), spans AS (
    SELECT coalesce(o.run_id, f.run_id) AS run_id, f.gpu_uuid, f.node, f.started_at // 3600000000 AS first_hour,
        greatest(coalesce(f.ended_at, (SELECT until_us FROM known)) - 1, f.started_at) // 3600000000 AS last_hour
    FROM fresh f LEFT JOIN other_names o ON o.alias_run_id = f.run_id AND f.started_at >= o.from_us AND f.started_at < o.until_us
), of_run AS (
    SELECT run_id, min(first_hour) AS first_hour, max(last_hour) AS last_hour FROM spans GROUP BY run_id
)
SELECT u.gid, s.first_hour, s.last_hour FROM spans s JOIN units u ON u.uuid = s.gpu_uuid
UNION SELECT g.gid, s.first_hour, s.last_hour FROM spans s JOIN node_gpus g USING (node) WHERE s.gpu_uuid IS NULL
UNION SELECT u.gid, s.first_hour, s.last_hour FROM of_run s JOIN allocation_now a USING (run_id) JOIN units u ON u.uuid = a.gpu_uuid;

-- What a host is made of, and who owns it, touches all of it from then on.
INSERT INTO touched
WITH fresh AS (
    SELECT i.node, i.started_at AS at_us FROM inventory i JOIN marks m ON m.collector = i.batch & 255 AND i.batch > m.batch
    UNION ALL SELECT o.node, o.owned_from FROM ownership o JOIN marks m ON m.collector = o.batch & 255 AND o.batch > m.batch
)
SELECT g.gid, min(f.at_us) // 3600000000, (SELECT until_us FROM known) // 3600000000 FROM fresh f JOIN node_gpus g USING (node) GROUP BY ALL;

-- Hours that are booked anew whole: those judged by other rules or prices, those that had not ended,
-- and owned hours that no pass has reached: between the last sample and the next, nothing arrives that could touch them.
CREATE OR REPLACE TEMP TABLE whole AS
SELECT hour // 1000 AS hour_ms FROM ledger_hours WHERE rules_version <> $rules OR price_version IS DISTINCT FROM $prices
UNION
SELECT hour // 1000 FROM ledger_hours CROSS JOIN known
WHERE status = 'provisional' AND hour + 3600000000 > coalesce((SELECT until_us FROM analysed_until), 0) AND (EXISTS (SELECT 1 FROM marks) OR known.until_us > coalesce((SELECT until_us FROM analysed_until), 0))
UNION
SELECT DISTINCT hour_ms FROM (
    SELECT unnest(range(greatest(o.from_ms, k.from_us // 86400000000 * 86400000) // 3600000 * 3600000, o.until_ms, 3600000)) AS hour_ms
    FROM (SELECT DISTINCT from_ms, until_ms FROM owned) o CROSS JOIN known k)
WHERE hour_ms * 1000 NOT IN (SELECT hour FROM ledger_hours);

CREATE OR REPLACE TEMP TABLE due AS
WITH spans AS (
    SELECT gid, greatest(first_hour, (SELECT from_us // 3600000000 FROM known)) AS first_hour,
        least(last_hour, (SELECT (until_us - 1) // 3600000000 FROM known)) AS last_hour FROM touched
), hourly AS (
    SELECT DISTINCT gid, unnest(range(first_hour, last_hour + 1)) * 3600000 AS hour_ms FROM spans WHERE last_hour >= first_hour
)
SELECT gid, hour_ms FROM hourly
UNION SELECT gid, hour_ms FROM whole CROSS JOIN (SELECT DISTINCT gid FROM gpus)
