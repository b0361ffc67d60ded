-- Keep what was seen, with the mark of how far: samples that have expired are remembered elsewhere.
DELETE FROM gpus_sighted;

INSERT INTO gpus_sighted SELECT gpu_uuid, node, parent_uuid, first_at, last_at FROM seen;

CREATE OR REPLACE TEMP TABLE serving_now AS
SELECT run_id, min(first_at) AS first_at, max(last_at) AS last_at, min(model_first) AS model_first,
    max(model_last) AS model_last, min(heard_at) AS heard_at
FROM (SELECT * FROM services_sighted UNION ALL BY NAME SELECT * FROM newly_serving) GROUP BY run_id;

DELETE FROM services_sighted;

INSERT INTO services_sighted BY NAME SELECT * FROM serving_now
