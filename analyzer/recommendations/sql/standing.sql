-- What a change of runs must know of each: where it is in its life, and how often runs of its name and team come.
-- $runs are looked at; $now is the end of what the ledger knows, and the weeks before it begin at $since.
WITH limits AS (
    SELECT run_id, max(started_at + CAST(time_limit_seconds * 1000000 AS BIGINT)) AS limit_at,
        max(started_at) AS newest_start
    FROM allocations WHERE list_contains($runs::VARCHAR[], run_id) AND started_at IS NOT NULL GROUP BY run_id
), kin AS (
    SELECT r.run_id, count(*) AS others,
        quantile_disc(o.ended_at - o.started_at, 0.5) FILTER (o.ended_at <= $now) AS usual_us
    FROM runs r JOIN runs o ON o.name = r.name AND o.team IS NOT DISTINCT FROM r.team AND o.run_id <> r.run_id
    WHERE list_contains($runs::VARCHAR[], r.run_id) AND o.started_at >= $since AND o.started_at < $now GROUP BY r.run_id
), loading AS (
    SELECT run_id, sum(milliseconds)::BIGINT AS ms FROM ledger
    WHERE state = 'starting' AND list_contains($runs::VARCHAR[], run_id) GROUP BY run_id
)
SELECT r.run_id, r.queue, r.stage, r.gpus, r.attempts, r.started_at, r.ended_at, l.limit_at, l.newest_start,
    coalesce(k.others, 0)::BIGINT, k.usual_us, s.ms
FROM runs r LEFT JOIN limits l USING (run_id) LEFT JOIN kin k USING (run_id) LEFT JOIN loading s USING (run_id)
WHERE list_contains($runs::VARCHAR[], r.run_id) ORDER BY r.run_id
