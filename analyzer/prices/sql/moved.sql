-- What of closed hours is booked as another team's, cost centre's or project's than their runs are now. Reads
-- terms_due.
CREATE OR REPLACE TEMP TABLE moving AS
SELECT c.hour, c.run_id, r.team, r.cost_centre, r.project FROM closed_runs c JOIN runs r USING (run_id)
WHERE c.hour BETWEEN $first AND $last AND c.hour IN (SELECT hour FROM terms_due) AND (
    (c.team, c.cost_centre, c.project) IS DISTINCT FROM (r.team, r.cost_centre, r.project)
    OR (c.hour, c.run_id) IN (SELECT (hour, run_id) FROM adjustments WHERE is_moved AND hour BETWEEN $first AND $last));

CREATE OR REPLACE TEMP TABLE moved AS
WITH told AS (
    SELECT hour, gpu_uuid, node, sku, purchase_option, run_id, state, cause, team, cost_centre, project, milliseconds,
        cost_micros
    FROM {booked ledger} l WHERE hour BETWEEN $first AND $last
    UNION ALL
    SELECT hour, gpu_uuid, node, sku, purchase_option, run_id, state, cause, team, cost_centre, project, milliseconds,
        cost_micros
    FROM {booked adjustments} a WHERE hour BETWEEN $first AND $last
)
SELECT t.* EXCLUDE (milliseconds, cost_micros), m.team AS to_team, m.cost_centre AS to_cost_centre,
    m.project AS to_project,
    sum(milliseconds)::BIGINT AS milliseconds, sum(cost_micros)::BIGINT AS cost_micros
FROM told t JOIN moving m ON m.hour = t.hour AND m.run_id = t.run_id
WHERE (t.team, t.cost_centre, t.project) IS DISTINCT FROM (m.team, m.cost_centre, m.project)
GROUP BY ALL HAVING sum(milliseconds) <> 0 OR coalesce(sum(cost_micros), 0) <> 0;

INSERT INTO adjustments BY NAME
SELECT $now_us AS recorded_at, * EXCLUDE (team, cost_centre, project, to_team, to_cost_centre, to_project, milliseconds,
    cost_micros),
    -milliseconds AS milliseconds, -cost_micros AS cost_micros, team AS moved_team, cost_centre AS moved_cost_centre,
    project AS moved_project, true AS is_moved, false AS shared, $reason AS reason, $rules AS rules_version,
        $prices AS price_version
FROM moved
UNION ALL BY NAME
SELECT $now_us AS recorded_at, * EXCLUDE (team, cost_centre, project, to_team, to_cost_centre, to_project, milliseconds,
    cost_micros),
    milliseconds, cost_micros, to_team AS moved_team, to_cost_centre AS moved_cost_centre, to_project AS moved_project,
    true AS is_moved, false AS shared, $reason AS reason, $rules AS rules_version, $prices AS price_version
FROM moved
