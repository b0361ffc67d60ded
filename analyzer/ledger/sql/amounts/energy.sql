-- What each GPU drew for whom, in whole millijoules, and for how long that is known: a sample's joules are of whoever
-- held the GPU in that sample, and one that crosses the end of an hour is cut there. Where no joules are told and power
-- is, they are the trapezoid of it (power_ms). MIG instances draw what their GPU does, and stay out.
CREATE OR REPLACE TEMP TABLE energy_read AS
WITH powered AS (
    SELECT node, gpu_uuid, started_at, ended_at, whole(power_watts * 1000) AS milliwatts,
        lag(ended_at) OVER read AS before_until, lag(whole(power_watts * 1000)) OVER read AS before
    FROM gpu_samples
    -- An hour more, so that how a pass is cut changes no neighbour; a row that is longer has none.
    WHERE started_at < $until_us AND ended_at > $from_us - 3600000000 AND parent_uuid IS NULL
        AND whole(energy_joules * 1000) IS NULL AND whole(power_watts * 1000) IS NOT NULL
    WINDOW read AS (PARTITION BY node, gpu_uuid ORDER BY started_at, ended_at)
), told AS (
    SELECT node, gpu_uuid, started_at, ended_at, whole(energy_joules * 1000) AS millijoules, false AS is_power
    FROM gpu_samples
    WHERE started_at < $until_us AND ended_at > $from_us AND parent_uuid IS NULL
        AND whole(energy_joules * 1000) IS NOT NULL
    UNION ALL
    SELECT node, gpu_uuid, started_at, ended_at, (milliwatts + CASE WHEN before_until = started_at
            AND ended_at - started_at <= 3600000000 THEN before ELSE milliwatts END)
        * (ended_at - started_at) // 2000000, true
    FROM powered WHERE ended_at > $from_us
)
SELECT *, ended_at - started_at AS length, started_at // 3600000000 * 3600000000 AS hour, started_at AS from_us,
    ended_at AS until_us
FROM told WHERE ended_at <= started_at // 3600000000 * 3600000000 + 3600000000
    AND started_at >= $from_us
UNION ALL
SELECT * REPLACE (greatest(started_at, hour) AS from_us, least(ended_at, hour + 3600000000) AS until_us)
FROM (
    SELECT *, ended_at - started_at AS length,
        unnest(range(started_at // 3600000000 * 3600000000, ended_at, 3600000000)) AS hour, 0 AS from_us, 0 AS until_us
    FROM told WHERE ended_at > started_at // 3600000000 * 3600000000 + 3600000000
) WHERE hour >= $from_us AND hour < $until_us;

CREATE OR REPLACE TEMP MACRO energy_until(millijoules, started_at, length, edge) AS
    millijoules * (edge - started_at) // length;

-- Where there was one holder, the hour is counted whole; where there were more, each sample is cut by them.
-- only with energy_read
CREATE OR REPLACE TEMP TABLE energy_parts AS
WITH holders AS (
    SELECT hour, gpu_uuid, from_us AS held_from, until_us AS held_until, run_id, weight,
        sum(weight) OVER (PARTITION BY hour, gpu_uuid, from_us) AS weights,
        sum(weight) OVER (PARTITION BY hour, gpu_uuid, from_us ORDER BY run_id NULLS FIRST
            ROWS UNBOUNDED PRECEDING) AS upto
    FROM hour_holders WHERE hour >= $from_us AND hour < $until_us
), cut AS (
    SELECT r.hour, r.node, r.gpu_uuid, h.run_id, h.weight, h.weights, h.upto, r.is_power,
        energy_until(millijoules, started_at, length, least(r.until_us, held_until))
            - energy_until(millijoules, started_at, length, greatest(r.from_us, held_from)) AS millijoules,
        least(r.until_us, held_until) // 1000 - greatest(r.from_us, held_from) // 1000 AS ms
    FROM energy_read r JOIN holders h ON h.hour = r.hour AND h.gpu_uuid = r.gpu_uuid AND h.held_from < r.until_us
        AND h.held_until > r.from_us
)
SELECT hour, node, gpu_uuid, run_id, millijoules * upto // weights - millijoules * (upto - weight) // weights
        AS millijoules, ms * upto // weights - ms * (upto - weight) // weights AS ms, is_power
FROM cut;

-- only with energy_read
CREATE OR REPLACE TEMP TABLE energy_new AS
WITH totals AS (
    SELECT hour, node, gpu_uuid, is_power, sum(energy_until(millijoules, started_at, length, until_us)
            - energy_until(millijoules, started_at, length, from_us)) AS millijoules,
        sum(until_us // 1000 - from_us // 1000) AS ms
    FROM energy_read GROUP BY ALL
), parts AS (
    SELECT hour, node, gpu_uuid, run_id, is_power, sum(millijoules) AS millijoules, sum(ms) AS ms FROM energy_parts
        GROUP BY ALL
), rest AS (
    SELECT t.hour, t.node, t.gpu_uuid, t.is_power, t.millijoules - coalesce(p.millijoules, 0) AS millijoules,
        t.ms - coalesce(p.ms, 0) AS ms, (t.hour, t.gpu_uuid) IN (SELECT (hour, gpu_uuid) FROM hour_holders) AS is_cut
    FROM totals t LEFT JOIN (SELECT hour, node, gpu_uuid, is_power, sum(millijoules) AS millijoules, sum(ms) AS ms
        FROM parts GROUP BY ALL) p USING (hour, node, gpu_uuid, is_power)
)
SELECT hour, node, gpu_uuid, run_id, amount(sum(millijoules)) AS millijoules,
    least(sum(ms), 3600000)::BIGINT AS measured_ms,
    least(coalesce(sum(ms) FILTER (is_power), 0), 3600000)::BIGINT AS power_ms
FROM (
    FROM parts UNION ALL BY NAME
    SELECT hour, node, gpu_uuid, NULL AS run_id, is_power, millijoules, ms FROM rest WHERE is_cut AND millijoules > 0
    UNION ALL BY NAME
    SELECT hour, node, gpu_uuid, run_id, is_power, energy_part(millijoules, upto, s.ms, whole_ms) AS millijoules,
        energy_part(r.ms, upto, s.ms, whole_ms) AS ms
    FROM rest r LEFT JOIN energy_shares s USING (hour, gpu_uuid) WHERE NOT is_cut
) GROUP BY ALL HAVING amount(sum(millijoules)) IS NOT NULL
