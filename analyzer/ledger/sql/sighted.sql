-- What came since the last pass: of each collector what is newer than its mark. $batch is the oldest of the marks, by
-- which files of the lake are passed over.

-- Each GPU's samples by the hour in which they began: from when to when, whether the first of them is quiet, and when
-- work was
-- seen within the margin of the hour's beginning.
CREATE OR REPLACE TEMP TABLE newly_sampled AS
WITH fresh AS (
    SELECT s.gpu_uuid, s.node, s.parent_uuid, s.started_at, s.ended_at,
        coalesce(s.sm_active_ratio, s.utilization_ratio, 0) * 1000 < $quiet_permille + 1 AS is_quiet
    FROM gpu_samples s JOIN marks m ON m.collector = s.batch & 255 AND s.batch > m.batch WHERE s.batch > $batch
)
SELECT gpu_uuid, started_at // 3600000000 AS hour, min(node) AS node, max(parent_uuid) AS parent_uuid,
    min(started_at) AS first_at, max(ended_at) AS last_at,
    coalesce(min(started_at) FILTER (is_quiet) = min(started_at), false) AS begins_quiet,
    min(started_at) FILTER (NOT is_quiet AND started_at % 3600000000 < $margin_us) AS work_from,
    max(started_at) FILTER (NOT is_quiet AND started_at % 3600000000 < $margin_us) AS work_until
FROM fresh GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE newly_sighted AS
SELECT gpu_uuid, min(node) AS node, max(parent_uuid) AS parent_uuid, min(first_at) AS first_at, max(last_at) AS last_at
FROM newly_sampled GROUP BY gpu_uuid;

-- What a host's settings name is a service from when it is asked; it is heard once its page is read, and not while it
-- loads. Who tells no state has read it.
-- only with service_samples
CREATE OR REPLACE TEMP TABLE newly_serving AS
SELECT s.run_id, min(s.started_at) AS first_at, max(s.ended_at) AS last_at, min(s.model) AS model_first,
    max(s.model) AS model_last, min(s.started_at) FILTER (coalesce(s.state, 'read') IN ('read', 'several_processes',
        'model_wanted', 'role_wanted')) AS heard_at
FROM service_samples s JOIN marks m ON m.collector = s.batch & 255 AND s.batch > m.batch
WHERE s.batch > $batch GROUP BY s.run_id
