-- Where the runs asked for were, cut wherever anybody came to their hosts or left them: small tables, made for a
-- reading.

-- The names under which hosts know runs; a name may lead to a name.
CREATE OR REPLACE TEMP TABLE traffic_names AS
WITH latest AS (
    SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
)
SELECT l.alias_run_id AS name, coalesce(n.run_id, l.run_id) AS run_id
FROM latest l LEFT JOIN latest n ON n.alias_run_id = l.run_id;

-- The last word on who held the hosts of these runs. What nobody ended, ended with its run.
CREATE OR REPLACE TEMP TABLE traffic_holds AS
WITH told AS (
    SELECT coalesce(n.run_id, a.run_id) AS run_id, a.node, a.gpu_uuid, a.rank, coalesce(a.attempt, 0) AS attempt,
        a.parent_run_id, a.started_at, a.ended_at
    FROM allocations a LEFT JOIN traffic_names n ON n.name = a.run_id
    WHERE a.started_at < $until_us AND a.node IN (
        SELECT b.node FROM allocations b LEFT JOIN traffic_names m ON m.name = b.run_id
        WHERE list_contains($runs, coalesce(m.run_id, b.run_id)))
    QUALIFY row_number() OVER (
        PARTITION BY coalesce(n.run_id, a.run_id), coalesce(a.attempt, 0), a.node, coalesce(a.gpu_uuid, a.member),
            a.started_at
        ORDER BY a.batch DESC, a.ended_at DESC NULLS LAST) = 1
)
SELECT t.run_id, t.node, t.gpu_uuid, t.rank, t.attempt, t.parent_run_id, greatest(t.started_at, $from_us) AS from_us,
    least(coalesce(t.ended_at, $until_us), coalesce(r.ended_at, $until_us), $until_us) AS until_us
FROM told t LEFT JOIN runs r ON r.run_id = t.run_id
WHERE least(coalesce(t.ended_at, $until_us), coalesce(r.ended_at, $until_us), $until_us) > greatest(t.started_at,
    $from_us);

-- A run that runs within another, or around it, does not share the host with that. No segment reaches over the edge of
-- an hour.
CREATE OR REPLACE TEMP TABLE traffic_segments AS
WITH edges AS (
    SELECT node, from_us AS at_us FROM traffic_holds UNION SELECT node, until_us FROM traffic_holds
    UNION SELECT node, unnest(range(from_us // 3600000000 * 3600000000 + 3600000000, until_us, 3600000000))
        FROM traffic_holds
), cuts AS (
    SELECT node, at_us AS from_us, lead(at_us) OVER (PARTITION BY node ORDER BY at_us) AS until_us FROM edges
), held AS (
    SELECT c.node, c.from_us, c.until_us, h.run_id, max(h.attempt) AS attempt, min(h.rank) AS rank,
        max(h.parent_run_id) AS parent_run_id
    FROM cuts c JOIN traffic_holds h ON h.node = c.node AND h.from_us <= c.from_us AND h.until_us >= c.until_us
    GROUP BY ALL
)
SELECT m.run_id, m.node, m.attempt, m.rank, m.from_us, m.until_us, EXISTS (
    SELECT 1 FROM held o WHERE o.node = m.node AND o.from_us = m.from_us AND o.run_id <> m.run_id
        AND o.run_id IS DISTINCT FROM m.parent_run_id AND o.parent_run_id IS DISTINCT FROM m.run_id) AS shared
FROM held m WHERE list_contains($runs, m.run_id);

-- Of an amount that was told of [at_us, to_us) what falls between two instants: parts that abut sum to the whole.
CREATE OR REPLACE TEMP MACRO traffic_part(amount, at_us, to_us, from_us, until_us) AS
CASE WHEN from_us <= at_us AND until_us >= to_us THEN amount::HUGEINT
    ELSE amount::HUGEINT * (least(until_us, to_us) - at_us) // greatest(to_us - at_us, 1)
        - amount::HUGEINT * (greatest(from_us, at_us) - at_us) // greatest(to_us - at_us, 1) END;

-- Hours in which somebody came or went: they are read by the minute, all others whole.
CREATE OR REPLACE TEMP TABLE traffic_edges AS
SELECT node, from_us // 3600000000 * 3600000000 AS hour FROM traffic_segments WHERE from_us % 3600000000 <> 0
UNION SELECT node, until_us // 3600000000 * 3600000000 FROM traffic_segments WHERE until_us % 3600000000 <> 0
