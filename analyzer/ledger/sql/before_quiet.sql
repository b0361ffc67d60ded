-- The hours before `quiet_edges` whose own samples end in quiet, which the two then share.
INSERT INTO touched
WITH before AS (
    SELECT e.gpu_uuid, e.hour, s.started_at, coalesce(s.sm_active_ratio, s.utilization_ratio, 0)
        * 1000 < $quiet_permille + 1 AS is_quiet
    FROM gpu_samples s JOIN quiet_edges e ON e.gpu_uuid = s.gpu_uuid AND s.started_at < e.first_at
        AND s.started_at >= e.first_at - $margin_us
    WHERE s.started_at >= $from_us AND s.started_at < $until_us
), joined AS (
    SELECT gpu_uuid, hour FROM before GROUP BY ALL HAVING max(started_at) FILTER (is_quiet) = max(started_at)
)
SELECT u.gid, j.hour - 1, j.hour - 1 FROM joined j JOIN units u ON u.uuid = j.gpu_uuid
