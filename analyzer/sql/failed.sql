-- Attempts that ended in failure, and of which any GPU was held in these days: what one of its GPUs lost, the others lost.
CREATE OR REPLACE TEMP TABLE failed AS
SELECT rid, attempt, min(from_ms) AS from_ms, max(until_ms) AS until_ms,
    CASE max(exit_status) WHEN 'preempted' THEN 'preempted' WHEN 'node_failed' THEN 'node_failed' ELSE 'failed' END AS lost_cause
FROM holds WHERE ended AND exit_status IN ('failed', 'timeout', 'out_of_memory', 'preempted', 'node_failed')
    AND (rid, attempt) IN (SELECT (rid, attempt) FROM holds WHERE until_ms > $from_ms AND from_ms < $until_ms)
GROUP BY rid, attempt;

CREATE OR REPLACE TEMP TABLE watched (rid INTEGER)
