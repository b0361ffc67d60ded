-- GPU milliseconds asked for, by kind of GPU, stage and hour: each run's GPUs for as long as it ran, from when it was
-- asked
-- for, as if it had begun at once. What runs still is wanted until now ($end). Use alone would be cut off
-- where
-- the fleet is full.
WITH asked AS (
    SELECT coalesce(stage, 'unknown') AS stage, sku, gpus, coalesce(submitted_at, started_at) AS from_us,
        CASE WHEN ended_at IS NULL THEN $end
            ELSE coalesce(submitted_at, started_at) + ended_at - coalesce(started_at, ended_at) END AS until_us
    FROM runs WHERE coalesce(submitted_at, started_at) < $end AND started_at IS NOT NULL AND gpus > 0
), hours AS (
    SELECT stage, sku, gpus, greatest(from_us, $start) AS from_us, least(until_us, $end) AS until_us,
        unnest(range(greatest(from_us, $start) // 3600000000 * 3600000000, least(until_us, $end), 3600000000)) AS hour
    FROM asked WHERE until_us > $start AND until_us > from_us
)
SELECT sku, stage, hour, sum(gpus * (least(until_us, hour + 3600000000) - greatest(from_us, hour)) // 1000)::BIGINT
FROM hours GROUP BY ALL ORDER BY ALL;
