-- What hosts and loaders did over the windows of these runs, each window weighed by its GPU time. Hosts' rates are of each run.
WITH windows AS (
    SELECT run_id, greatest((counts->>'$.ms')::BIGINT, 1) AS ms, (counts->>'$.workers')::BIGINT AS workers, (counts->>'$.busiest')::BIGINT AS busiest,
        (counts->>'$.disk_busy')::BIGINT AS disk_busy, (counts->>'$.block_read')::BIGINT AS block_read, (counts->>'$.mount_read')::BIGINT AS mount_read,
        (counts->>'$.rdma_out')::BIGINT AS rdma_out, (counts->>'$.nodes')::BIGINT AS nodes
    FROM run_windows WHERE window_start >= $start AND window_start < $end AND list_contains($runs::VARCHAR[], run_id)
)
SELECT max(nullif(workers, 0)), sum(busiest * ms) FILTER (workers > 0) // sum(ms) FILTER (workers > 0 AND busiest IS NOT NULL),
    sum(disk_busy * ms)::HUGEINT // sum(ms) FILTER (disk_busy IS NOT NULL),
    sum((coalesce(block_read, 0) + coalesce(mount_read, 0))::HUGEINT * ms) FILTER (coalesce(block_read, mount_read) IS NOT NULL)
        // sum(ms) FILTER (coalesce(block_read, mount_read) IS NOT NULL),
    sum(rdma_out) FILTER (nodes > 1)::HUGEINT
FROM windows
