-- What whole runs of a name and size cost: those that completed in the period, and in the time before it.
WITH ended AS (
    SELECT run_id, coalesce(name, run_id) AS name, team, gpus, ended_at >= $start AS is_now FROM runs
    WHERE ended_at >= $since AND ended_at < $end AND exit_status = 'completed' AND stage IS DISTINCT FROM 'serving'
), cost AS (
    SELECT e.name, e.team, e.gpus, e.is_now, e.run_id, sum(l.milliseconds)::BIGINT AS milliseconds,
        CASE WHEN count(*) = count(l.cost_micros) THEN sum(l.cost_micros)::BIGINT END AS micros
    FROM ended e JOIN ledger l ON l.run_id = e.run_id GROUP BY ALL
)
SELECT name, team, gpus, count(*) FILTER (is_now), count(*) FILTER (NOT is_now),
    quantile_disc(milliseconds, 0.5) FILTER (is_now), quantile_disc(milliseconds, 0.5) FILTER (NOT is_now),
    CASE WHEN count(*) = count(micros) THEN quantile_disc(micros, 0.5) FILTER (is_now) END,
    CASE WHEN count(*) = count(micros) THEN quantile_disc(micros, 0.5) FILTER (NOT is_now) END,
    CASE WHEN count(*) = count(micros) THEN sum(micros) FILTER (is_now)::BIGINT END
FROM cost GROUP BY ALL HAVING count(*) FILTER (is_now) >= $least
ORDER BY sum(milliseconds) FILTER (is_now) DESC, name, team, gpus;
