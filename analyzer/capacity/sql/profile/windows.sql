-- What hosts and loaders did over the windows of these runs, each window weighed by its GPU time.
WITH windows AS (
    SELECT run_id, greatest((counts->>'$.ms')::BIGINT, 1) AS ms, (counts->>'$.workers')::BIGINT AS workers,
        (counts->>'$.busiest')::BIGINT AS busiest,
        (counts->>'$.disk_busy')::BIGINT AS disk_busy, (counts->>'$.block_read')::BIGINT AS block_read,
            (counts->>'$.mount_read')::BIGINT AS mount_read,
        (counts->>'$.rdma_out')::BIGINT AS rdma_out, (counts->>'$.nodes')::BIGINT AS nodes,
            run_id = $slowest AS is_slowest
    FROM run_windows WHERE window_start >= $start AND window_start < $end AND list_contains($runs::VARCHAR[], run_id)
)
-- The input is that of the run that waited for it most.
SELECT max(nullif(workers, 0)) FILTER (is_slowest), sum(busiest * ms) FILTER (is_slowest AND workers > 0) // sum(ms)
    FILTER (is_slowest AND workers > 0 AND busiest IS NOT NULL),
    sum(disk_busy * ms) FILTER (is_slowest)::HUGEINT // sum(ms) FILTER (is_slowest AND disk_busy IS NOT NULL),
    sum((coalesce(block_read, 0) + coalesce(mount_read, 0))::HUGEINT * ms)
        FILTER (is_slowest AND coalesce(block_read, mount_read) IS NOT NULL)
        // sum(ms) FILTER (is_slowest AND coalesce(block_read, mount_read) IS NOT NULL),
    sum(rdma_out) FILTER (nodes > 1)::HUGEINT
FROM windows;

-- Which run waited for input most; where none did, which held most.
SELECT run_id FROM ledger WHERE hour >= $start AND hour < $end AND list_contains($runs::VARCHAR[], run_id)
GROUP BY run_id ORDER BY coalesce(sum(milliseconds) FILTER (state = 'starved'), 0) DESC, sum(milliseconds) DESC,
    run_id LIMIT 1
