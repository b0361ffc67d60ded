-- What the runs of each name and team cost by hour, and how much of it was avoidable: the states $wholly, and of the
-- states
-- $partly what $avoidable lists as state/cause. Rows of runs that nobody knows have neither name nor team.
CREATE OR REPLACE TEMP TABLE anomaly_hours AS
WITH by_run AS (
    SELECT hour, run_id, sum(cost_micros)::BIGINT AS held,
        sum(cost_micros) FILTER (CASE WHEN list_contains($partly::VARCHAR[], state)
            THEN list_contains($avoidable::VARCHAR[], state || '/' || coalesce(cause, ''))
            ELSE list_contains($wholly::VARCHAR[], state) END)::BIGINT AS avoidable
    FROM ledger WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL GROUP BY ALL
)
SELECT b.hour, b.team, coalesce(b.name, CASE WHEN r.run_id IS NOT NULL THEN b.run_id END) AS name,
    coalesce(sum(b.held), 0)::BIGINT AS held, coalesce(sum(b.avoidable), 0)::BIGINT AS avoidable
FROM {booked by_run} b LEFT JOIN runs r ON r.run_id = b.run_id GROUP BY ALL;

-- The same by team alone.
SELECT team, hour, sum(held)::BIGINT, sum(avoidable)::BIGINT FROM anomaly_hours GROUP BY ALL ORDER BY ALL;

-- What runs of each name of one team cost in the hours $hours, and in the hours like them before, $like: the same
-- weekday
-- and hour in as many weeks as $weeks says.
WITH wanted AS (
    SELECT unnest($hours::BIGINT[]) AS hour, true AS is_now UNION ALL SELECT unnest($like::BIGINT[]), false
), amounts AS (
    SELECT name, hour, if($everything, held, avoidable) AS amount FROM anomaly_hours
    WHERE team IS NOT DISTINCT FROM $team AND name IS NOT NULL
)
SELECT a.name, coalesce(sum(a.amount) FILTER (w.is_now), 0)::BIGINT,
    (coalesce(sum(a.amount) FILTER (NOT w.is_now), 0) // $weeks)::BIGINT
FROM amounts a JOIN wanted w USING (hour) GROUP BY ALL;
