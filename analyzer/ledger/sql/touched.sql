-- Which hours of which GPUs anything touches that came since the last pass.
-- `touched` holds spans of hours, numbered from 1970; the tables of hosts have been put into it before.

-- A GPU's own samples; of those that come late what lies on either side too, since that was looked at without them.
-- only with newly_sampled
INSERT INTO touched
SELECT u.gid, if(is_late, first_at - $margin_us, first_at) // 3600000000,
    (if(is_late, last_at + $margin_us, last_at) - 1) // 3600000000
FROM (SELECT n.gpu_uuid, n.first_at, n.last_at, coalesce(n.first_at < g.last_at, false) AS is_late
    FROM newly_sampled n LEFT JOIN gpus_sighted g USING (gpu_uuid)) s
JOIN units u ON u.uuid = s.gpu_uuid;

-- Who was starting as an hour ended, or had just begun to work: what follows says whether it went on to load.
-- only with run_loads|run_gpus
CREATE OR REPLACE TEMP TABLE starting_at AS
SELECT DISTINCT s.gpu_uuid, n.node, u.gid, s.hour FROM (
    SELECT gpu_uuid, hour FROM run_loads
    UNION ALL
    SELECT gpu_uuid, first_active_at // 3600000000 * 3600000000 FROM run_gpus
    WHERE first_active_at % 3600000000 >= 3600000000 - $starting_ms * 1000
) s JOIN units u ON u.uuid = s.gpu_uuid JOIN nodes n USING (nid);

-- only with newly_sampled, starting_at
INSERT INTO touched
SELECT s.gid, s.hour // 3600000000, n.hour
FROM newly_sampled n JOIN starting_at s ON s.gpu_uuid = n.gpu_uuid AND s.hour = (n.hour - 1) * 3600000000
WHERE n.first_at - n.hour * 3600000000 < $margin_us;

-- Quiet is seen whole: where it may reach over from an hour that is booked, by who held the GPU then.
-- only with ledger_hours, newly_sampled
CREATE OR REPLACE TEMP TABLE quiet_edges AS
SELECT n.gpu_uuid, n.hour, n.first_at FROM newly_sampled n
WHERE n.begins_quiet AND n.first_at - n.hour * 3600000000 < $margin_us
    AND (n.hour - 1) * 3600000000 IN (SELECT hour FROM ledger_hours)
    AND EXISTS (SELECT 1 FROM allocation_now a WHERE a.gpu_uuid = n.gpu_uuid AND a.from_ms < n.hour * 3600000
        AND a.until_ms > (n.hour - 1) * 3600000)
    AND (n.gpu_uuid, n.hour - 1) NOT IN (SELECT (gpu_uuid, hour) FROM newly_sampled);

-- What a serving stack said touches the GPUs of its run, whosever host read it, and the silence around it.
-- only with service_samples, service_runs
INSERT INTO touched
SELECT DISTINCT u.gid, s.first_hour, s.last_hour FROM (
    SELECT DISTINCT k.rid, (t.started_at - $margin_us) // 3600000000 AS first_hour,
        (t.ended_at + $margin_us - 1) // 3600000000 AS last_hour
    FROM service_samples t JOIN marks m ON m.collector = t.batch & 255 AND t.batch > m.batch
    JOIN run_names k ON k.run_id = t.run_id AND t.started_at >= k.from_us AND t.started_at < k.until_us
        WHERE t.batch > $batch
) s JOIN service_runs USING (rid) JOIN run_keys k USING (rid) JOIN allocation_now a USING (run_id)
    JOIN units u ON u.uuid = a.gpu_uuid;

-- Where nobody declares what is owned, a GPU is from when it was first seen until it was last seen: what lies between.
-- only with newly_sighted, gpus_sighted
INSERT INTO touched
SELECT u.gid, least(n.first_at, s.first_at) // 3600000000, greatest(n.last_at, s.last_at) // 3600000000
FROM newly_sighted n JOIN gpus_sighted s USING (gpu_uuid) JOIN units u ON u.uuid = n.gpu_uuid
WHERE n.first_at < s.first_at OR n.last_at > s.last_at + 3600000000;

-- A GPU that is seen for the first time was not "never seen" before: silence has another name then.
-- only with newly_sighted
INSERT INTO touched
SELECT u.gid, k.from_us // 3600000000, k.until_us // 3600000000
FROM newly_sighted n ANTI JOIN gpus_sighted s USING (gpu_uuid) JOIN units u ON u.uuid = n.gpu_uuid CROSS JOIN known k;

-- An allocation touches what it names, and all that its run holds: by every name that leads to the run. One that says
-- nothing
-- new but when it ended, and not in failure, touches what lies between the end as it was known before and as it is
-- known now, and the quiet before it, which is counted as long as it was held.
INSERT INTO touched
WITH named AS (
    SELECT a.alias_run_id FROM run_aliases a JOIN marks m ON m.collector = a.batch & 255 AND a.batch > m.batch
    UNION SELECT l.alias_run_id FROM run_aliases l JOIN run_aliases r ON r.alias_run_id = l.run_id
        JOIN marks m ON m.collector = r.batch & 255 AND r.batch > m.batch
), every AS (
    SELECT a.run_id, a.gpu_uuid, a.node, a.attempt, a.started_at, a.ended_at, a.batch,
        coalesce(a.batch > m.batch, false) AS is_fresh,
        coalesce(a.exit_status IN (FROM failures_told), false) AS has_failed,
        row(a.submitted_at, a.member, a.parent_run_id, a.rank, a.scheduler, a.user, a.account, a.project, a.name,
            a.queue, a.labels, a.gpu_fraction) AS words
    FROM allocations a LEFT JOIN marks m ON m.collector = a.batch & 255 WHERE a.started_at IS NOT NULL
), fresh AS (
    SELECT * FROM every WHERE is_fresh
    UNION SELECT e.* FROM every e JOIN named ON alias_run_id = e.run_id
), before AS (
    SELECT * FROM every WHERE NOT is_fresh AND run_id IN (SELECT run_id FROM fresh)
    QUALIFY row_number() OVER (PARTITION BY run_id, gpu_uuid, node, attempt, started_at ORDER BY batch DESC,
        ended_at DESC NULLS LAST) = 1
), moved AS (
    SELECT f.*, coalesce(f.ended_at, k.until_us) AS until_us, CASE WHEN b.run_id IS NOT NULL
        THEN coalesce(b.ended_at, k.until_us) END AS before_us,
        b.words IS NOT DISTINCT FROM f.words AND NOT b.has_failed AND NOT f.has_failed
            AND f.run_id NOT IN (SELECT alias_run_id FROM named) AS has_only_ended
    FROM fresh f CROSS JOIN known k LEFT JOIN before b ON b.run_id = f.run_id AND b.started_at = f.started_at
        AND b.gpu_uuid IS NOT DISTINCT FROM f.gpu_uuid AND b.node IS NOT DISTINCT FROM f.node
            AND b.attempt IS NOT DISTINCT FROM f.attempt
), spans AS (
    SELECT coalesce(o.run_id, m.run_id) AS run_id, m.gpu_uuid, m.node,
        greatest(if(has_only_ended, least(m.until_us, before_us) - $margin_us, 0), m.started_at) // 3600000000
            AS first_hour,
        greatest(greatest(m.until_us, before_us) - 1, m.started_at) // 3600000000 AS last_hour
    FROM moved m LEFT JOIN other_names o ON o.alias_run_id = m.run_id AND m.started_at >= o.from_us
        AND m.started_at < o.until_us
), of_run AS (
    SELECT run_id, min(first_hour) AS first_hour, max(last_hour) AS last_hour FROM spans GROUP BY run_id
)
SELECT u.gid, s.first_hour, s.last_hour FROM spans s JOIN units u ON u.uuid = s.gpu_uuid
UNION SELECT g.gid, s.first_hour, s.last_hour FROM spans s JOIN node_gpus g USING (node) WHERE s.gpu_uuid IS NULL
UNION SELECT u.gid, s.first_hour, s.last_hour FROM of_run s JOIN allocation_now a USING (run_id)
    JOIN units u ON u.uuid = a.gpu_uuid;

-- What a host is made of, and who owns it, touches all of it from then on.
INSERT INTO touched
WITH fresh AS (
    SELECT i.node, i.started_at AS at_us FROM inventory i JOIN marks m ON m.collector = i.batch & 255
        AND i.batch > m.batch
    UNION ALL SELECT o.node, o.owned_from FROM ownership o JOIN marks m ON m.collector = o.batch & 255
        AND o.batch > m.batch
)
SELECT g.gid, min(f.at_us) // 3600000000, (SELECT until_us FROM known) // 3600000000 FROM fresh f JOIN node_gpus g
    USING (node) GROUP BY ALL
