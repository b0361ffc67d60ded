-- What came since the last pass: of each collector what is newer than its mark. $batch is the oldest of the marks, by
-- which files of the lake are passed over.

CREATE OR REPLACE TEMP TABLE newly_sighted AS
SELECT s.gpu_uuid, min(s.node) AS node, max(s.parent_uuid) AS parent_uuid, min(s.started_at) AS first_at, max(s.ended_at) AS last_at
FROM gpu_samples s JOIN marks m ON m.collector = s.batch & 255 AND s.batch > m.batch
WHERE s.batch > $batch GROUP BY s.gpu_uuid;

CREATE OR REPLACE TEMP TABLE newly_serving AS
SELECT s.run_id, min(s.started_at) AS first_at, max(s.ended_at) AS last_at
FROM service_samples s JOIN marks m ON m.collector = s.batch & 255 AND s.batch > m.batch
WHERE s.batch > $batch GROUP BY s.run_id
