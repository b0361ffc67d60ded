-- A row for each host of each attempt: its first rank, and how long the run was there, alone or not.
SELECT run_id, node, attempt, min(rank) AS rank, sum(until_us - from_us)::BIGINT AS held_us,
    coalesce(sum(until_us - from_us) FILTER (shared), 0)::BIGINT AS shared_us
FROM traffic_segments GROUP BY ALL ORDER BY ALL
