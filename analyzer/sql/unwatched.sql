-- Attempts that failed on this day and of which no checkpoint could have been seen: nobody knows what was lost.
INSERT OR REPLACE INTO not_evaluated
SELECT DISTINCT $from_us, run_id, 'work lost', 'what its hosts wrote to disk, or its own word of checkpoints'
FROM unwatched WHERE until_ms * 1000 > $from_us AND until_ms * 1000 <= $until_us
