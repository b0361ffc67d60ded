-- From a request to the first productive GPU-second, by team: runs of the period whose first work was seen. Those that
-- still wait, or never worked, are counted apart.
WITH asked AS (
    SELECT run_id, team, submitted_at, started_at FROM runs WHERE submitted_at >= $start AND submitted_at < $end
), worked AS (
    SELECT a.run_id, min(g.first_active_at) AS first_at FROM asked a JOIN run_gpus g USING (run_id) GROUP BY ALL
)
SELECT a.team, count(w.first_at), count(*) - count(w.first_at),
    quantile_disc(greatest(0, a.started_at - a.submitted_at), 0.5) FILTER (w.first_at IS NOT NULL),
    quantile_disc(greatest(0, w.first_at - a.submitted_at), 0.5),
        quantile_disc(greatest(0, w.first_at - a.submitted_at), 0.9)
FROM asked a LEFT JOIN worked w USING (run_id) GROUP BY ALL ORDER BY 2 DESC, 1;
