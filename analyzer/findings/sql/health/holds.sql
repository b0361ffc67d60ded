-- Who held which GPU in which hour, and how much of it; and which runs those were, as people call them.
CREATE OR REPLACE TEMP TABLE notice_holds AS
SELECT l.hour, l.gpu_uuid, l.node, l.run_id, sum(l.milliseconds)::BIGINT AS ms,
    coalesce(sum(l.milliseconds) FILTER (l.state = 'held_idle' AND l.cause = 'never_used' OR l.state = 'starting'),
        0)::BIGINT AS untouched_ms,
    coalesce(sum(l.milliseconds) FILTER (l.state IN ('throttled', 'starved')), 0)::BIGINT AS slowed_ms
FROM ledger l WHERE l.hour >= $start AND l.hour < $end AND l.run_id IS NOT NULL GROUP BY ALL;

-- Whole hours of one run alone on a GPU, the run's first on it left out: what it is while it works.
CREATE OR REPLACE TEMP TABLE notice_steady AS
WITH alone AS (
    SELECT h.*, min(h.hour) OVER (PARTITION BY h.gpu_uuid, h.run_id) AS first_hour FROM notice_holds h
)
SELECT a.hour, a.gpu_uuid, a.node, a.run_id, g.* EXCLUDE (hour, gpu_uuid, node)
FROM alone a JOIN notice_gpu_hours g ON g.hour = a.hour AND g.gpu_uuid = a.gpu_uuid
WHERE a.ms >= 3590000 AND a.hour > a.first_hour
