-- The days of every finding, by the names that its runs have now, and when the last of its runs ended: null where one
-- still runs, or where it is a host's.
WITH named AS (
    SELECT coalesce(r.name, d.run_id, d.node) AS subject, r.team, d.* EXCLUDE (run_id, node), r.ended_at
    FROM finding_days d LEFT JOIN runs r USING (run_id)
), ends AS (
    SELECT subject, team, state, cause, CASE WHEN count(*) = count(ended_at) THEN max(ended_at) END AS ended_at
    FROM named GROUP BY ALL
)
SELECT n.subject, n.team, n.state, n.cause, n.day, bit_or(n.hours), sum(n.milliseconds)::BIGINT,
    sum(n.cost_micros)::BIGINT, sum(n.high_ms)::BIGINT, sum(n.medium_ms)::BIGINT, any_value(e.ended_at)
FROM named n JOIN ends e ON e.subject = n.subject AND e.team IS NOT DISTINCT FROM n.team
    AND e.state = n.state AND e.cause = n.cause
GROUP BY ALL ORDER BY ALL;
