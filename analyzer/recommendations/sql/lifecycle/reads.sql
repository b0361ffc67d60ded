-- What the hosts of these attempts read while they ran, over network mounts and from their own disks.
WITH held AS (
    SELECT unnest($runs::VARCHAR[]) AS run_id, unnest($attempts::BIGINT[]) AS attempt,
        unnest($nodes::VARCHAR[]) AS node,
        unnest($starts::BIGINT[]) AS started_at, unnest($ends::BIGINT[]) AS ended_at
)
SELECT h.run_id, h.attempt, coalesce(sum(d.read_bytes) FILTER (d.mount_kind <> 'block'), 0)::BIGINT,
    coalesce(sum(d.read_bytes) FILTER (d.mount_kind = 'block'), 0)::BIGINT
FROM disk_samples d JOIN held h ON d.node = h.node AND d.started_at >= h.started_at AND d.ended_at <= h.ended_at
WHERE d.mount_kind IS NOT NULL AND list_contains($nodes::VARCHAR[], d.node) AND d.started_at >= $from
GROUP BY h.run_id, h.attempt;
