-- Runs that held GPUs in a period, those that held most first; $team and $project are null where all count.
SELECT l.run_id, r.name, r.stage, r.sku, r.gpus, r.started_at, r.ended_at, sum(l.milliseconds)::BIGINT AS ms,
    if(bool_or(l.cost_micros IS NULL AND l.milliseconds > 0), NULL, sum(l.cost_micros))::BIGINT AS micros,
    r.team, r.project
FROM ledger l JOIN runs r USING (run_id)
WHERE l.hour >= $start AND l.hour < $end AND ($team IS NULL OR r.team = $team)
    AND ($project IS NULL OR r.project = $project)
    AND ($runs IS NULL OR list_contains($runs::VARCHAR[], l.run_id))
GROUP BY ALL ORDER BY ms DESC, l.run_id;

SELECT DISTINCT team FROM runs WHERE team IS NOT NULL ORDER BY team;

-- Where the GPU time of each of these runs went.
SELECT run_id, state, cause, sum(milliseconds)::BIGINT,
    if(bool_or(cost_micros IS NULL AND milliseconds > 0), NULL, sum(cost_micros))::BIGINT
FROM ledger WHERE hour >= $start AND hour < $end AND list_contains($runs::VARCHAR[], run_id) GROUP BY ALL
    HAVING sum(milliseconds) > 0 ORDER BY ALL
