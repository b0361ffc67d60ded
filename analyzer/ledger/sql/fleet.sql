-- The fleet as the store knows it: what is observed (units), what is owned, and who holds what. Small tables, made
-- once.

-- The latest word on each GPU or MIG instance.
CREATE OR REPLACE TEMP TABLE inventory_now AS
SELECT * FROM inventory WHERE gpu_uuid IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY gpu_uuid ORDER BY started_at DESC, batch DESC) = 1;

-- Of each host the last word on each of its facts: an agent that knows no rack does not take back what labels said.
-- only with inventory
CREATE OR REPLACE TEMP TABLE host_now AS
SELECT node, arg_max(rack, (started_at, batch)) AS rack FROM inventory WHERE gpu_uuid IS NULL GROUP BY node;

-- Where hosts stood when: their GPUs are priced by it (placed.py).
-- only with inventory
CREATE OR REPLACE TEMP TABLE host_spans AS
FROM {host spans} spans;

-- What the agents have seen, whoever owns it: what earlier passes knew, samples that have expired, and what is new.
CREATE OR REPLACE TEMP TABLE seen AS
WITH every AS (
    SELECT * FROM gpus_sighted UNION ALL SELECT * FROM gpus_seen UNION ALL SELECT * FROM newly_sighted
)
SELECT gpu_uuid, min(node) AS node, max(parent_uuid) AS parent_uuid, min(first_at) AS first_at, max(last_at) AS last_at
FROM every GROUP BY gpu_uuid;

-- The ledger reaches from the first evidence to the last; ownership alone is evidence only where there is no other.
CREATE OR REPLACE TEMP TABLE known AS
WITH evidence AS (
    SELECT min(first_at) AS first_us, max(last_at) AS last_us FROM seen
    UNION ALL SELECT min(started_at), max(coalesce(ended_at, started_at)) FROM allocations WHERE started_at IS NOT NULL
    UNION ALL SELECT min(started_at), max(ended_at) FROM node_states
    UNION ALL SELECT min(from_ms) * 1000, max(until_ms) * 1000 FROM lost_spans
), bounds AS (
    SELECT min(first_us) AS from_us, max(last_us) AS until_us FROM evidence
)
SELECT coalesce(from_us, (SELECT min(owned_from) FROM ownership)) AS from_us,
    -- No host's clock makes it later than what has arrived; least() passes over what is null.
    coalesce(CASE WHEN until_us IS NOT NULL THEN least(until_us, $arrived_us) END,
        (SELECT max(owned_until) FROM ownership)) AS until_us
FROM bounds;

-- Hosts know some runs by another name than their scheduler: the task of an array by its number, a pod by its name and
-- that by its owner, so that a name may lead to a name. A name that is used anew, as that of a pod of a job that was
-- submitted again, means each run from when that was asked for.
-- only with run_aliases
CREATE OR REPLACE TEMP TABLE other_names AS
WITH latest AS (
    SELECT alias_run_id, run_id FROM run_aliases
    QUALIFY row_number() OVER (PARTITION BY alias_run_id ORDER BY batch DESC) = 1
), meant AS (
    SELECT a.alias_run_id, coalesce(n.run_id, a.run_id) AS run_id, arg_max(a.member, a.batch) AS member,
        min(a.batch) AS batch,
        list(DISTINCT a.run_id) AS told
    FROM run_aliases a LEFT JOIN latest n ON n.alias_run_id = a.run_id GROUP BY ALL
), reused AS (
    SELECT *, list_distinct(list_prepend(run_id, told)) AS runs FROM meant
    QUALIFY count(*) OVER (PARTITION BY alias_run_id) > 1
), asked AS (
    SELECT r.alias_run_id, r.run_id, min(coalesce(a.submitted_at, a.started_at)) AS at_us
    FROM (SELECT alias_run_id, run_id, member, unnest(runs) AS known_as FROM reused) r
    JOIN allocations a ON a.run_id = r.known_as AND (a.member = r.member OR a.member IS NULL OR r.member IS NULL)
        GROUP BY ALL
), since AS (
    SELECT m.*, coalesce(a.at_us, t.sent_at, m.batch >> 8) AS at_us, row_number() OVER w AS n
    FROM meant m LEFT JOIN asked a USING (alias_run_id, run_id) LEFT JOIN receipts t ON t.batch = m.batch
    WINDOW w AS (PARTITION BY m.alias_run_id ORDER BY coalesce(a.at_us, t.sent_at, m.batch >> 8), m.batch, m.run_id)
)
SELECT alias_run_id, run_id, member, CASE WHEN n = 1 THEN 0 ELSE at_us END AS from_us,
    coalesce(lead(at_us) OVER (PARTITION BY alias_run_id ORDER BY n), 9223372036854775807) AS until_us
FROM since;

-- A controller that has lost its counter gives numbers again, which hosts tell as they are: by the scheduler's runs
-- (number@second), else by who runs there; root's are everybody's.
CREATE OR REPLACE TEMP TABLE given_again AS
SELECT split_part(run_id, '@', 1) AS number, bool_or(contains(run_id, '@')) AS by_scheduler
FROM allocations WHERE starts_with(run_id, 'slurm/')
GROUP BY ALL HAVING by_scheduler
    OR min(user) FILTER (scheduler = 'cgroup' AND user <> 'root')
        <> max(user) FILTER (scheduler = 'cgroup' AND user <> 'root');

-- Whose a number is on which host from when on.
-- only with given_again
CREATE OR REPLACE TEMP TABLE numbers_again AS
WITH of_scheduler AS (
    SELECT split_part(run_id, '@', 1) AS number, run_id, node, started_at, ended_at FROM allocations
    WHERE starts_with(run_id, 'slurm/') AND coalesce(scheduler, 'slurm') = 'slurm' AND started_at IS NOT NULL
        AND split_part(run_id, '@', 1) IN (SELECT number FROM given_again WHERE by_scheduler)
), of_several AS (
    SELECT run_id FROM allocations
    WHERE scheduler = 'cgroup' AND user <> 'root' AND split_part(run_id, '@', 1) IN (SELECT number FROM given_again)
    GROUP BY run_id HAVING min(user) <> max(user)
), of_users AS (
    SELECT run_id AS number, min(started_at) OVER (PARTITION BY run_id, user) AS first_at, node, started_at, ended_at,
        min(started_at) OVER (PARTITION BY run_id) AS number_at
    FROM allocations WHERE scheduler = 'cgroup' AND user <> 'root' AND started_at IS NOT NULL
        AND run_id IN (FROM of_several) AND run_id NOT IN (SELECT run_id FROM allocations
            WHERE coalesce(scheduler, 'slurm') = 'slurm' AND run_id IN (FROM of_several))
), told AS (
    FROM of_scheduler
    UNION ALL SELECT number, number || CASE WHEN first_at > number_at THEN '@' || first_at // 1000000 ELSE '' END, node,
        started_at, ended_at FROM of_users
), turns AS (
    SELECT * FROM told
    QUALIFY lag(run_id) OVER (PARTITION BY number, node ORDER BY started_at, run_id) IS DISTINCT FROM run_id
)
SELECT number, node, run_id, CASE WHEN row_number() OVER w = 1 THEN 0 ELSE started_at END AS from_us,
    coalesce(lead(started_at) OVER w, 9223372036854775807) AS until_us,
    (SELECT max(coalesce(t.ended_at, 9223372036854775807)) FROM told t WHERE t.number = turns.number
        AND t.run_id <> turns.run_id AND t.started_at < turns.started_at) > started_at AS is_beside
FROM turns WINDOW w AS (PARTITION BY number, node ORDER BY started_at, run_id);

-- Of what is told of runs and no GPU, where no two of a number were there at once.
-- only with numbers_again
INSERT INTO other_names
WITH begun AS (
    SELECT number, run_id, min(from_us) AS from_us FROM numbers_again
    WHERE number NOT IN (SELECT number FROM numbers_again WHERE is_beside) GROUP BY ALL
)
SELECT number, run_id, NULL, from_us, coalesce(lead(from_us) OVER (PARTITION BY number ORDER BY from_us, run_id),
    9223372036854775807) FROM begun;

-- The last word on each allocation, clocks of sources ranked: the scheduler before the cgroup before the run itself.
-- Where the scheduler knows no GPU, its word is of a member (a pod), or of the run on a host.
CREATE OR REPLACE TEMP TABLE allocation_told AS
WITH ranked AS (
    SELECT *, CASE coalesce(scheduler, split_part(run_id, '/', 1))
        WHEN 'process' THEN 3 WHEN 'declared' THEN 2 WHEN 'cgroup' THEN 1 ELSE 0 END AS precedence
    FROM allocations WHERE started_at IS NOT NULL
        AND NOT (starts_with(run_id, 'process/') AND ends_with(run_id, '/hidden'))
)
SELECT r.* REPLACE (coalesce(g.run_id, o.run_id, r.run_id) AS run_id),
    coalesce(o.member, CASE WHEN r.gpu_uuid IS NULL THEN r.member END, r.node) AS part
FROM ranked r LEFT JOIN other_names o ON o.alias_run_id = r.run_id AND r.started_at >= o.from_us
    AND r.started_at < o.until_us
LEFT JOIN numbers_again g ON g.number = r.run_id AND g.node = r.node AND r.started_at >= g.from_us
    AND r.started_at < g.until_us
QUALIFY row_number() OVER (
    PARTITION BY coalesce(g.run_id, o.run_id, r.run_id), coalesce(attempt, 0), coalesce(gpu_uuid, r.node), CASE
        WHEN gpu_uuid IS NULL THEN part END, started_at
    ORDER BY batch DESC, ended_at DESC NULLS LAST) = 1;

-- How members ended that their scheduler knows without a GPU: what hosts say of them ended so too.
CREATE OR REPLACE TEMP TABLE endings AS
SELECT run_id, part, ended_at, max(exit_status) AS exit_status FROM allocation_told
WHERE precedence = 0 AND gpu_uuid IS NULL AND ended_at > started_at GROUP BY ALL;

-- Ends by which work is lost.
CREATE OR REPLACE TEMP TABLE failures_told AS
    SELECT unnest(['failed', 'timeout', 'out_of_memory', 'preempted', 'node_failed']) AS exit_status;

-- Pods have no attempts: those that failed, and those that were taken down with them within minutes, are one.
-- only with endings
CREATE OR REPLACE TEMP TABLE breaks AS
WITH failures AS (
    SELECT run_id, ended_at, coalesce(ended_at - lag(ended_at) OVER w > 300000000, true) AS is_new
    FROM endings WHERE starts_with(run_id, 'kubernetes/') AND exit_status IN (FROM failures_told)
    WINDOW w AS (PARTITION BY run_id ORDER BY ended_at)
)
SELECT run_id, ended_at, max(n) AS attempt FROM (
    SELECT *, count(*) FILTER (is_new) OVER (PARTITION BY run_id ORDER BY ended_at) AS n FROM failures) GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE allocation_now AS
WITH ended AS (
    SELECT a.*, coalesce(a.exit_status, CASE WHEN a.ended_at IS NOT NULL THEN e.exit_status END) AS ending,
        coalesce(CASE WHEN a.gpu_uuid IS NULL THEN a.ended_at END, e.ended_at, a.ended_at) AS over_at,
        CASE WHEN a.gpu_uuid IS NOT NULL AND a.ended_at - e.ended_at BETWEEN 0 AND 60000000 THEN e.ended_at
            ELSE a.ended_at END AS until_us
    FROM allocation_told a ASOF LEFT JOIN endings e ON e.run_id = a.run_id AND e.part = a.part
        AND e.ended_at >= a.started_at
)
SELECT a.run_id, CASE WHEN a.ending <> 'completed' AND a.over_at - b.ended_at <= 300000000 THEN b.attempt
    ELSE coalesce(a.attempt, 0) END AS attempt,
    a.gpu_uuid, a.node, a.started_at // 1000 AS from_ms, coalesce(a.until_us, (SELECT until_us FROM known))
        // 1000 AS until_ms,
    a.until_us AS ended_at, a.ending AS exit_status, a.submitted_at, a.precedence, a.told_by,
    a.name, a.account, a.user AS owner, a.project, a.queue, a.labels, a.batch
FROM ended a ASOF LEFT JOIN breaks b ON b.run_id = a.run_id AND b.ended_at <= a.over_at;

-- Slots that were bought before their GPU is known by name take the driver's index as their number.
CREATE OR REPLACE TEMP TABLE owned_rows AS
SELECT coalesce(o.gpu_uuid, i.gpu_uuid, o.node || '/slot' || o.slot) AS gpu_uuid, o.node,
    coalesce(o.sku, i.sku, j.sku) AS sku, o.purchase_option, o.owned_from, o.owned_until, o.batch
FROM ownership o
LEFT JOIN inventory_now i ON o.gpu_uuid IS NULL AND i.node = o.node AND i.gpu_index = o.slot AND i.parent_uuid IS NULL
LEFT JOIN inventory_now j ON j.gpu_uuid = o.gpu_uuid;

-- Agents (and allocations) are the owner of last resort: from the first sight of a GPU to the last. A GPU that was lost
-- before
-- anybody knew its name bears that of its slot, which was bought: once the name is known it is no GPU beside it.
INSERT INTO owned_rows
WITH sight AS (
    SELECT coalesce(s.parent_uuid, s.gpu_uuid) AS gpu_uuid, s.node, s.first_at, s.last_at FROM seen s
    UNION ALL
    SELECT coalesce(i.parent_uuid, a.gpu_uuid), a.node, a.from_ms * 1000, a.until_ms * 1000
    FROM allocation_now a LEFT JOIN inventory_now i USING (gpu_uuid) WHERE a.gpu_uuid IS NOT NULL
)
SELECT s.gpu_uuid, min(s.node), max(i.sku), NULL, min(first_at), max(last_at), 0
FROM sight s LEFT JOIN inventory_now i USING (gpu_uuid)
WHERE s.gpu_uuid NOT IN (SELECT gpu_uuid FROM owned_rows)
    AND s.gpu_uuid NOT IN (SELECT node || '/slot' || slot FROM ownership WHERE gpu_uuid IS NULL AND slot IS NOT NULL)
GROUP BY s.gpu_uuid;

-- The ledger's unit is the GPU. Numbers stand for names from here on: joins on integers are what makes a week cheap.
CREATE OR REPLACE TEMP TABLE gpus AS
SELECT row_number() OVER (ORDER BY gpu_uuid) AS gid, gpu_uuid, min(node) AS node FROM owned_rows GROUP BY gpu_uuid;

CREATE OR REPLACE TEMP TABLE nodes AS
SELECT row_number() OVER (ORDER BY node) AS nid, node, rack FROM (SELECT DISTINCT node FROM gpus) LEFT
    JOIN host_now USING (node);

-- Units are what is observed: GPUs and MIG instances.
CREATE OR REPLACE TEMP TABLE units AS
WITH every AS (
    SELECT gpu_uuid AS uuid, gpu_uuid AS owner_uuid, NULL::BIGINT AS slices FROM gpus
    UNION
    SELECT i.gpu_uuid, i.parent_uuid, i.mig_slices FROM inventory_now i WHERE i.parent_uuid IS NOT NULL
    UNION
    SELECT s.gpu_uuid, s.parent_uuid, NULL FROM seen s
    WHERE s.parent_uuid IS NOT NULL AND s.gpu_uuid NOT IN (SELECT gpu_uuid FROM inventory_now)
)
SELECT row_number() OVER (ORDER BY e.uuid) AS uid, e.uuid, g.gid, n.nid, e.slices, e.uuid <> e.owner_uuid AS is_mig,
    i.power_limit_watts, coalesce(p.mig_slices_max, 7) AS slices_max,
    CASE WHEN i.sku LIKE 'V100%' OR i.sku LIKE 'T4%' THEN 12 ELSE 25 END AS pcie_limit_kb_ms,
    coalesce(b.limit_watts, m.limit_watts) AS usual_limit_watts, b.boost_hertz
FROM every e JOIN gpus g ON g.gpu_uuid = e.owner_uuid JOIN nodes n ON n.node = g.node
LEFT JOIN inventory_now i ON i.gpu_uuid = e.uuid
LEFT JOIN inventory_now p ON p.gpu_uuid = e.owner_uuid
LEFT JOIN (SELECT sku, max(power_limit_watts) AS limit_watts FROM inventory_now GROUP BY sku) m ON m.sku = i.sku
LEFT JOIN boards b ON b.sku = i.sku AND b.limit_watts = usual_limit(i.sku, i.power_limit_watts);

-- Where a process was that its host could not see, and so nobody knows who held the GPU.
CREATE OR REPLACE TEMP TABLE hidden_holds AS
SELECT u.uid, a.started_at // 1000 AS from_ms, coalesce(a.ended_at, (SELECT until_us FROM known)) // 1000 AS until_ms
FROM allocations a JOIN units u ON u.uuid = a.gpu_uuid
WHERE starts_with(a.run_id, 'process/') AND ends_with(a.run_id, '/hidden')
QUALIFY row_number() OVER (PARTITION BY a.run_id, a.gpu_uuid, a.started_at ORDER BY a.batch DESC) = 1;

CREATE OR REPLACE TEMP TABLE node_gpus AS SELECT DISTINCT n.node, u.gid FROM units u JOIN nodes n USING (nid);

-- Owned spans of one GPU are made disjoint: the later purchase takes over.
CREATE OR REPLACE TEMP TABLE owned AS
SELECT gid, sku, purchase_option, owned_from // 1000 AS from_ms,
    least(
        coalesce(owned_until, 9223372036854775807),
        (SELECT until_us FROM known),
        coalesce(lead(owned_from) OVER (PARTITION BY gid ORDER BY owned_from, batch), 9223372036854775807)
    ) // 1000 AS until_ms
-- Where nothing has been seen yet and no purchase ends, nobody knows until when.
FROM owned_rows JOIN gpus USING (gpu_uuid) WHERE (SELECT until_us IS NOT NULL FROM known);

-- Runs and who holds which unit when.
CREATE OR REPLACE TEMP TABLE run_keys AS
SELECT row_number() OVER (ORDER BY run_id) AS rid, run_id FROM (SELECT DISTINCT run_id FROM allocation_now);

-- And by every name that hosts may have for it.
CREATE OR REPLACE TEMP TABLE run_names AS
SELECT run_id, rid, 0 AS from_us, 9223372036854775807 AS until_us FROM run_keys
WHERE run_id NOT IN (SELECT alias_run_id FROM other_names WHERE alias_run_id IN (SELECT number FROM numbers_again))
UNION SELECT o.alias_run_id, k.rid, o.from_us, o.until_us FROM other_names o JOIN run_keys k USING (run_id)
WHERE o.alias_run_id NOT IN (SELECT run_id FROM run_keys) OR o.alias_run_id IN (SELECT number FROM numbers_again);

-- Hosts whose scheduler has ever spoken of them: there, silence about an allocation means that there is none.
CREATE OR REPLACE TEMP TABLE scheduled_nodes AS
SELECT DISTINCT n.nid FROM nodes n WHERE n.node IN (
    SELECT node FROM allocations WHERE coalesce(scheduler, split_part(run_id, '/', 1)) NOT IN ('process', 'declared',
        'cgroup')
    UNION SELECT node FROM node_states);

-- What the scheduler says of a host, the later word cutting the earlier one short.
-- only with node_states
CREATE OR REPLACE TEMP TABLE host_states AS
SELECT n.nid, s.state, s.started_at // 1000 AS from_ms,
    least(s.ended_at, coalesce(lead(s.started_at) OVER (PARTITION BY n.nid ORDER BY s.started_at, s.batch), s.ended_at))
        // 1000 AS until_ms
FROM node_states s JOIN nodes n USING (node) WHERE s.state <> 'up' AND s.state IS NOT NULL
