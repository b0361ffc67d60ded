-- What each team held in hours that are to be charged ($hours), by the ledger (recorded_at 0) and by each correction of
-- it.
WITH told AS (
    SELECT hour, team, cost_centre, sku, purchase_option, 0 AS recorded_at, milliseconds, cost_micros
    FROM {booked ledger} l WHERE run_id IS NOT NULL AND hour BETWEEN $first AND $last
    UNION ALL
    SELECT hour, team, cost_centre, sku, purchase_option, recorded_at, milliseconds, cost_micros
    FROM {booked adjustments} a WHERE run_id IS NOT NULL AND hour BETWEEN $first AND $last
)
SELECT hour, team, cost_centre, sku, purchase_option, recorded_at, sum(milliseconds)::BIGINT, sum(cost_micros)::HUGEINT,
    bool_or(cost_micros IS NULL)
FROM told WHERE list_contains($hours::BIGINT[], hour) GROUP BY ALL ORDER BY ALL;

-- What is charged of them up to now beyond their cost by the ledger: the charge of who has a rate, and corrections.
SELECT hour, team, cost_centre, sku, purchase_option, max(closed)::BIGINT, coalesce(sum(more), 0)::BIGINT FROM (
    SELECT hour, team, cost_centre, sku, purchase_option, charged_micros AS closed, NULL AS more FROM closed_charges
    UNION ALL
    SELECT hour, team, cost_centre, sku, purchase_option, NULL, charged_micros FROM charge_corrections
) WHERE list_contains($hours::BIGINT[], hour) GROUP BY ALL;
