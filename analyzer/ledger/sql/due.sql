-- Which hours of which GPUs must be booked anew: what is touched, and whole hours (whole.sql).
CREATE OR REPLACE TEMP TABLE due AS
WITH spans AS (
    SELECT gid, greatest(first_hour, (SELECT from_us // 3600000000 FROM known)) AS first_hour,
        least(last_hour, (SELECT (until_us - 1) // 3600000000 FROM known)) AS last_hour FROM touched
), hourly AS (
    SELECT DISTINCT gid, unnest(range(first_hour, last_hour + 1)) * 3600000 AS hour_ms FROM spans
        WHERE last_hour >= first_hour
)
SELECT gid, hour_ms FROM hourly
UNION SELECT gid, hour_ms FROM whole CROSS JOIN (SELECT DISTINCT gid FROM gpus)
