-- Attempts that failed in these hours and of which no checkpoint could have been seen: nobody knows what was lost.
-- only with unwatched
INSERT OR REPLACE INTO not_evaluated
SELECT DISTINCT (until_ms - 1) // 3600000 * 3600000000, run_id, 'work lost',
    'what its hosts wrote to disk, or its own word of checkpoints'
FROM unwatched WHERE until_ms * 1000 > $from_us AND until_ms * 1000 <= $until_us
    AND run_id IN (SELECT run_id FROM remade)
