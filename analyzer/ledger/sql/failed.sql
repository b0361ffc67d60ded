-- Attempts that ended in failure, and of which any GPU was held in the hours that are due: what one of its GPUs lost,
-- the others lost.
CREATE OR REPLACE TEMP TABLE failed AS
SELECT rid, attempt, min(from_ms) AS from_ms, max(until_ms) AS until_ms,
    CASE max(exit_status) WHEN 'preempted' THEN 'preempted' WHEN 'node_failed' THEN 'node_failed'
        ELSE 'failed' END AS lost_cause
FROM holds WHERE ended AND exit_status IN (FROM failures_told)
    AND (rid, attempt) IN (SELECT (rid, attempt) FROM holds h JOIN due d ON d.gid = h.gid AND h.until_ms > d.hour_ms
        AND h.from_ms < d.hour_ms + 3600000)
GROUP BY rid, attempt;

CREATE OR REPLACE TEMP TABLE watched (rid INTEGER);

-- Attempts of which some GPU worked: of what never began nothing is lost.
CREATE OR REPLACE TEMP TABLE worked (rid INTEGER, attempt BIGINT);

CREATE OR REPLACE TEMP TABLE written_in (rid INTEGER, minute_ms BIGINT, is_small BOOLEAN);

CREATE OR REPLACE TEMP TABLE written_since (rid INTEGER, minute_ms BIGINT, written BIGINT)
