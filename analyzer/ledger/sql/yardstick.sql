-- The run's own yardstick: how busy its GPUs are when nothing holds them up, known from all its hours up to this one.

-- only with run_activity
DELETE FROM run_activity WHERE hour >= $from_us AND hour < $until_us
    AND (run_id, hour // 1000) IN (SELECT (run_id, hour_ms) FROM remade);

INSERT OR REPLACE INTO run_activity
SELECT k.run_id, p.from_ms // 3600000 * 3600000000, p.activity // 5 * 5, sum(p.ms)
FROM pieces p JOIN run_keys k USING (rid)
WHERE NOT p.is_fixed AND p.up AND p.activity > $active_permille
GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE yardsticks AS
WITH here AS (
    SELECT DISTINCT rid, hour_ms FROM slices WHERE rid IS NOT NULL
), so_far AS (
    SELECT h.rid, h.hour_ms, a.permille, sum(a.milliseconds) AS ms
    FROM here h JOIN run_keys k USING (rid) JOIN run_activity a ON a.run_id = k.run_id AND a.hour <= h.hour_ms * 1000
    GROUP BY ALL
), running AS (
    SELECT *, sum(ms) OVER (PARTITION BY rid, hour_ms ORDER BY permille) AS upto,
        sum(ms) OVER (PARTITION BY rid, hour_ms) AS total FROM so_far
)
SELECT rid, hour_ms, min(permille)::INTEGER AS best
FROM running WHERE upto * 1000 >= total * $yardstick_permille GROUP BY ALL
