-- How long runs of each queue waited before they began, half of them at most: in [$since, $now), with how many began.
SELECT coalesce(queue, ''), quantile_disc(greatest(0, started_at - submitted_at), 0.5)::BIGINT, count(*)::BIGINT
FROM runs WHERE started_at >= $since AND started_at < $now AND submitted_at IS NOT NULL GROUP BY ALL ORDER BY ALL
