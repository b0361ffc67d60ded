-- When runs saved their state, as it was seen: $runs, in [$since, $now). No sample is read, nor what a run says itself.
SELECT run_id, list(minute ORDER BY minute) FROM checkpoints
WHERE list_contains($runs::VARCHAR[], run_id) AND minute >= $since AND minute < $now GROUP BY run_id ORDER BY run_id
