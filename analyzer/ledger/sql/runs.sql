-- One row a run, from its allocations.

-- Runs whose serving stack was ever asked, whatever they are called: since when, since when it is heard (null: never),
-- and what they serve.
-- only with services_sighted|services_seen|newly_serving
CREATE OR REPLACE TEMP TABLE serving_runs AS
    SELECT n.rid, min(greatest(s.first_at, n.from_us)) // 1000 AS asked_ms,
        min(greatest(s.heard_at, n.from_us)) FILTER (s.heard_at IS NOT NULL) // 1000 AS first_ms,
        CASE WHEN min(s.model_first) = max(s.model_last) THEN min(s.model_first) END AS model
    FROM (SELECT * FROM services_sighted
        UNION ALL BY NAME SELECT *, first_at AS heard_at FROM services_seen UNION ALL BY NAME SELECT *
        FROM newly_serving) s
    JOIN run_names n ON n.run_id = s.run_id AND s.last_at > n.from_us AND s.first_at < n.until_us
    GROUP BY n.rid;

CREATE OR REPLACE TEMP TABLE run_summary AS
SELECT a.run_id, k.rid, coalesce(min(a.name) FILTER (a.precedence = 0), min(a.name)) AS name,
    coalesce(min(a.account) FILTER (a.precedence = 0), min(a.account)) AS account,
    -- Of hosts the one that told first is believed: who joins a run later does not say whose it is.
    coalesce(min(a.owner) FILTER (a.precedence = 0 AND a.told_by IS NULL), arg_min(a.owner, (a.batch, a.owner))
        FILTER (a.owner IS NOT NULL)) AS owner,
    coalesce(min(a.project) FILTER (a.precedence = 0), min(a.project)) AS project,
    coalesce(min(a.queue) FILTER (a.precedence = 0), min(a.queue)) AS queue,
    coalesce(min(a.labels) FILTER (a.precedence = 0 AND a.told_by IS NULL), min(a.labels) FILTER (a.told_by IS NULL),
        arg_min(a.labels, (a.batch, a.labels)) FILTER (a.labels IS NOT NULL)) AS labels,
            min(a.from_ms) * 1000 AS started_us, k.rid IN (SELECT rid FROM serving_runs) AS serves,
    (SELECT s.model FROM serving_runs s WHERE s.rid = k.rid) AS served,
    count(DISTINCT a.gpu_uuid) AS gpus, count(DISTINCT a.node) AS nodes,
    CASE WHEN count(*) FILTER (n.rack IS NULL) = 0 THEN count(DISTINCT n.rack) END AS racks,
    CASE WHEN count(DISTINCT i.sku) = 1 THEN min(i.sku) END AS sku
FROM allocation_now a JOIN run_keys k USING (run_id) LEFT JOIN nodes n USING (node)
LEFT JOIN (SELECT gpu_uuid, min(sku) AS sku FROM owned_rows GROUP BY gpu_uuid) i USING (gpu_uuid)
GROUP BY a.run_id, k.rid;

CREATE OR REPLACE TEMP TABLE run_ends AS
SELECT a.run_id, arg_max(a.exit_status, (a.until_ms, a.attempt)) AS exit_status, min(a.submitted_at) AS submitted_at,
    min(a.from_ms) * 1000 AS started_at, CASE WHEN count(*) FILTER (a.ended_at IS NULL) = 0
        THEN max(a.ended_at) END AS ended_at,
    CASE WHEN count(DISTINCT i.sku) = 1 AND count(*) FILTER (a.gpu_uuid IS NOT NULL AND i.sku IS NULL) = 0
        THEN min(i.sku) END AS sku, count(DISTINCT a.attempt) AS attempts
FROM allocation_now a LEFT JOIN (SELECT DISTINCT gpu_uuid, sku FROM owned_rows) i USING (gpu_uuid) GROUP BY a.run_id
