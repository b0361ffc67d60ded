-- One GPU that a run had for itself, in the hour in which it worked most: its samples, oldest first.
WITH worked AS (
    SELECT gpu_uuid, hour FROM ledger
    WHERE run_id = $run AND hour >= $start AND hour < $end AND list_contains($stepping::VARCHAR[], state)
    GROUP BY ALL HAVING NOT bool_or(shared) ORDER BY sum(milliseconds) DESC, hour DESC, gpu_uuid LIMIT 1
)
SELECT s.started_at, s.ended_at, s.sm_active_ratio, s.power_watts
FROM gpu_samples s JOIN worked w ON w.gpu_uuid = s.gpu_uuid AND s.started_at >= w.hour
    AND s.started_at < w.hour + 3600000000
WHERE s.parent_uuid IS NULL ORDER BY s.started_at LIMIT 40000
