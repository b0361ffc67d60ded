-- How the runs of a name ($name, $team) were placed, an attempt a row: hosts in the order of their ranks, GPUs, cores.
WITH own AS (
    SELECT run_id, started_at, coalesce(ended_at, $until) AS ended_at FROM runs
    WHERE coalesce(name, run_id) = $name AND team IS NOT DISTINCT FROM $team
        AND started_at < $until AND coalesce(ended_at, $until) > $from
), named AS (
    SELECT run_id, run_id AS alias FROM own
    UNION SELECT o.run_id, a.alias_run_id FROM run_aliases a JOIN own o ON o.run_id = a.run_id
), placed AS (
    SELECT n.run_id, coalesce(a.attempt, 0) AS attempt, a.node, a.gpu_uuid, min(a.rank) AS rank,
        min(a.started_at) AS started_at, coalesce(max(a.ended_at), $until) AS ended_at
    FROM allocations a JOIN named n ON n.alias = a.run_id
    WHERE a.gpu_uuid IS NOT NULL AND a.node IS NOT NULL AND a.started_at IS NOT NULL GROUP BY ALL
), others AS (
    SELECT gpu_uuid, run_id, min(started_at) AS started_at, coalesce(max(ended_at), $until) AS ended_at FROM allocations
    WHERE gpu_uuid IN (SELECT gpu_uuid FROM placed) AND started_at IS NOT NULL
        AND run_id NOT IN (SELECT alias FROM named) GROUP BY gpu_uuid, run_id
), siblings AS (
    SELECT gpu_uuid, run_id, started_at, ended_at FROM others
    UNION ALL SELECT gpu_uuid, run_id, started_at, ended_at FROM placed
), shared AS (
    SELECT DISTINCT p.run_id, p.attempt, p.gpu_uuid FROM placed p JOIN siblings s ON s.gpu_uuid = p.gpu_uuid
        AND s.run_id <> p.run_id
        AND 2 * (least(s.ended_at, p.ended_at) - greatest(s.started_at, p.started_at)) > p.ended_at - p.started_at
), hosts AS (
    SELECT node, arg_max(rack, (started_at, batch)) AS rack FROM inventory WHERE gpu_uuid IS NULL GROUP BY node
), chips AS (
    SELECT gpu_uuid, arg_max(sku, (started_at, batch)) AS sku, bool_or(parent_uuid IS NOT NULL) AS is_slice
    FROM inventory WHERE gpu_uuid IS NOT NULL GROUP BY gpu_uuid
), skus AS (
    SELECT gpu_uuid, min(sku) AS sku FROM ownership WHERE gpu_uuid IS NOT NULL GROUP BY gpu_uuid
), held AS (
    SELECT p.run_id, p.attempt, p.node, min(p.rank) AS first_rank, min(p.started_at) AS started_at,
        max(p.ended_at) AS ended_at, count(DISTINCT p.gpu_uuid) AS gpus, count(DISTINCT s.gpu_uuid) AS shared,
        count(DISTINCT p.gpu_uuid) FILTER (c.is_slice) AS slices, min(coalesce(c.sku, k.sku)) AS sku
    FROM placed p LEFT JOIN shared s ON s.run_id = p.run_id AND s.attempt = p.attempt AND s.gpu_uuid = p.gpu_uuid
        LEFT JOIN chips c ON c.gpu_uuid = p.gpu_uuid LEFT JOIN skus k ON k.gpu_uuid = p.gpu_uuid
    GROUP BY p.run_id, p.attempt, p.node
), cores AS (
    SELECT run_id, quantile_disc((counts->>'$.cores_milli')::BIGINT, 0.5) / 1000 AS cores FROM run_windows
    WHERE run_id IN (SELECT run_id FROM own) AND (counts->>'$.cores_milli') IS NOT NULL GROUP BY run_id
)
SELECT h.run_id, h.attempt, min(h.started_at), max(h.ended_at), list(h.node ORDER BY h.first_rank, h.node),
    list(r.rack ORDER BY h.first_rank, h.node), sum(h.gpus)::BIGINT,
    list_sort(list(DISTINCT h.sku) FILTER (h.sku IS NOT NULL)), sum(h.slices)::BIGINT, sum(h.shared)::BIGINT,
    min(c.cores)
FROM held h LEFT JOIN hosts r ON r.node = h.node LEFT JOIN cores c ON c.run_id = h.run_id
GROUP BY h.run_id, h.attempt ORDER BY min(h.started_at), h.run_id, h.attempt;
