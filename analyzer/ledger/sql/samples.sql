-- One chunk of samples, narrow: integers only (permille, kB/ms), so that every sum is exact and every run the same.
-- `unit_hour`
-- numbers a unit and the hour in which its sample began in one (the first number of each unit: before the chunk),
-- almost without
-- gaps: what is looked up by such a number is found quickest.

CREATE OR REPLACE TEMP TABLE narrow AS
SELECT u.uid,
    u.uid * (($until_us - $from_us) // 3600000000 + 3)
        + greatest(0, s.started_at // 3600000000 - $from_us // 3600000000 + 1) AS unit_hour,
        s.started_at // 1000 AS from_ms,
    s.ended_at // 1000 AS until_ms, s.ended_at // 1000 - s.started_at // 1000 AS sample_ms, s.batch,
    s.up IS DISTINCT FROM false AS up,
    permille(coalesce(s.sm_active_ratio, s.utilization_ratio)) AS activity,
    s.sm_active_ratio IS NOT NULL AS has_sm,
    permille(s.utilization_ratio) AS utilization,
    permille(s.utilization_zero_ratio) AS zero,
    permille(s.tensor_active_ratio) AS tensor,
    permille(s.dram_active_ratio) AS dram,
    -- least() passes over what is null: unknown must be kept unknown by hand.
    CASE WHEN permille_of(s.power_watts, u.power_limit_watts) IS NOT NULL
        THEN least(5000, permille_of(s.power_watts, u.power_limit_watts)) END::SMALLINT AS power,
    TRY_CAST(s.memory_used_bytes // 1000000 AS INTEGER) AS memory_mb,
    -- Share of the clock that is lost while it is held down, by as much of the time as it is; what is drawn meanwhile
    -- may be all that the interval drew, and power that was not read is not known to be less. A board that draws all
    -- that one of its make may draw, and clocks lower for it, does what it is built to do.
    CASE WHEN s.sm_clock_hertz < c.reference_hertz AND t.held_permille > 0
             AND NOT (t.slowed_by = 1 AND c.draws_its_limit)
         THEN greatest(0, (1000 - permille_of(if(t.held_permille < 500, least(s.sm_clock_hertz, s.sm_clock_hertz_min),
             s.sm_clock_hertz), c.reference_hertz)) * t.held_permille // 1000) ELSE 0 END::SMALLINT AS slowed,
    t.slowed_by,
    -- A minute at 36 GB/s fills 31 bits; a petabyte an interval is more than any link, and keeps the sums in 63.
    CASE WHEN s.pcie_receive_bytes IS NOT NULL
        THEN least(s.pcie_receive_bytes // 1000, 1000000000000) END::BIGINT AS pcie_in_kb,
    CASE WHEN s.pcie_transmit_bytes IS NOT NULL
        THEN least(s.pcie_transmit_bytes // 1000, 1000000000000) END::BIGINT AS pcie_out_kb,
    CASE WHEN coalesce(s.nvlink_receive_bytes, s.nvlink_transmit_bytes) IS NOT NULL
         THEN least((coalesce(s.nvlink_receive_bytes, 0) + coalesce(s.nvlink_transmit_bytes, 0)) // 1000,
             1000000000000) END::BIGINT AS nvlink_kb,
    spins(s.utilization_ratio, s.sm_active_ratio, s.tensor_active_ratio, s.dram_active_ratio,
        s.memory_utilization_ratio, s.power_watts, u.power_limit_watts,
        coalesce(s.nvlink_receive_bytes, 0) + coalesce(s.nvlink_transmit_bytes, 0), s.ended_at - s.started_at) AS spins
FROM gpu_samples s JOIN (SELECT uid::INTEGER AS uid, uuid, power_limit_watts, usual_limit_watts, boost_hertz FROM units
    WHERE gid IN (SELECT gid FROM chunk_gpus)) u ON u.uuid = s.gpu_uuid
CROSS JOIN LATERAL (
    SELECT least(1000, coalesce(permille_of(1000000 * greatest(s.throttle_power_seconds,
            s.throttle_thermal_seconds, s.throttle_hardware_seconds), greatest(1, s.ended_at - s.started_at)),
                0))::BIGINT AS held_permille,
        CASE WHEN coalesce(s.throttle_hardware_seconds, 0) >= greatest(coalesce(s.throttle_power_seconds, 0),
            coalesce(s.throttle_thermal_seconds, 0)) THEN 3
             WHEN coalesce(s.throttle_thermal_seconds, 0) >= coalesce(s.throttle_power_seconds, 0) THEN 2
                 ELSE 1 END::TINYINT AS slowed_by
) t
CROSS JOIN LATERAL (
    SELECT least(s.sm_clock_reference_hertz, u.boost_hertz) AS reference_hertz,
        coalesce(reaches_limit(u.power_limit_watts, u.usual_limit_watts)
            AND coalesce(draws_limit(greatest(s.power_watts_max, s.power_watts * 1000 / greatest(1, t.held_permille)),
                u.power_limit_watts), true), false) AS draws_its_limit
) c
WHERE s.started_at < $until_us AND s.ended_at > $from_us;

-- What each unit's samples come to in half the time that makes a quiet span: one that is long enough covers an even
-- half whole.
CREATE OR REPLACE TEMP TABLE halves AS
SELECT uid, unit_hour, from_ms // ($quiet_ms // 2) AS half, min(from_ms) AS from_ms, max(until_ms) AS until_ms,
    sum(sample_ms)::BIGINT AS ms, min(sample_ms) AS least_ms,
    max(sample_ms) AS most_ms, sum(hash(from_ms) >> 2) - sum(hash(until_ms) >> 2) AS unmatched,
        bool_and(coalesce(up AND activity <= $quiet_permille, false)) AS rests
FROM narrow GROUP BY ALL;

-- Whose samples need not be put in order, which is dear: each begins where another ends, as many begin before any
-- moment as
-- end, plus one. Samples finer than a second do need it, since dips are looked for in them.
CREATE OR REPLACE TEMP TABLE abutting AS
SELECT uid FROM halves GROUP BY uid
HAVING max(until_ms) - min(from_ms) = sum(ms) AND sum(unmatched) = (hash(min(from_ms)) >> 2)::HUGEINT
    - (hash(max(until_ms)) >> 2)::HUGEINT
    AND max(most_ms) * 2 < $quiet_ms AND min(least_ms) >= 1000;

-- In order of time, with only what that needs: a window carries all its columns along, and these are few.
CREATE OR REPLACE TEMP TABLE ordered AS
SELECT rowid AS r, uid, row_number() OVER w AS k, from_ms, until_ms, activity, up, lead(from_ms) OVER w AS next_ms
FROM narrow WHERE uid NOT IN (SELECT uid FROM abutting) WINDOW w AS (PARTITION BY uid ORDER BY from_ms, until_ms);

-- Samples of one unit are made disjoint: each moment is told by the one that began last. Few ever overlap.
CREATE OR REPLACE TEMP TABLE overlapping AS
SELECT DISTINCT uid FROM ordered WHERE next_ms < until_ms;

-- only with overlapping
CREATE OR REPLACE TEMP TABLE disjoint AS
WITH told AS (
    SELECT n.* FROM narrow n JOIN overlapping USING (uid)
), edges AS (
    SELECT uid, from_ms AS at_ms FROM told UNION SELECT uid, until_ms FROM told
), spans AS (
    SELECT uid, at_ms, lead(at_ms) OVER (PARTITION BY uid ORDER BY at_ms) AS end_ms FROM edges
)
SELECT t.* REPLACE (s.at_ms AS from_ms, s.end_ms AS until_ms,
    t.unit_hour + s.at_ms // 3600000 - t.from_ms // 3600000 AS unit_hour)
FROM spans s JOIN told t ON t.uid = s.uid AND t.from_ms <= s.at_ms AND t.until_ms >= s.end_ms
WHERE s.end_ms IS NOT NULL
QUALIFY row_number() OVER (
    PARTITION BY s.uid, s.at_ms ORDER BY t.from_ms DESC, t.until_ms DESC, t.batch DESC, t.activity DESC NULLS LAST,
        t.memory_mb DESC NULLS LAST, t.up DESC) = 1;

-- only with overlapping
DELETE FROM narrow WHERE uid IN (SELECT uid FROM overlapping);

-- only with disjoint
INSERT INTO narrow SELECT * FROM disjoint;

-- only with overlapping
DELETE FROM ordered WHERE uid IN (SELECT uid FROM overlapping);

-- only with overlapping
INSERT INTO ordered
SELECT n.rowid, uid, row_number() OVER w, from_ms, until_ms, activity, up, NULL
FROM narrow n JOIN overlapping USING (uid) WINDOW w AS (PARTITION BY uid ORDER BY from_ms);

-- Quiet spans: consecutive samples without work, long enough to be a state of their own and no pause in one. Where
-- samples abut
-- they are made of halves that rest and of the quiet samples in the halves beside those; time less what was quiet so
-- far is
-- then the same throughout a span.
CREATE OR REPLACE TEMP TABLE quiet AS
WITH resting AS (
    SELECT uid, half, from_ms, until_ms FROM halves SEMI JOIN abutting USING (uid) WHERE rests
), beside AS (
    SELECT uid, half + 1 AS half FROM resting UNION SELECT uid, half - 1 FROM resting
), low AS (
    SELECT uid, from_ms, until_ms FROM resting
    UNION ALL
    SELECT n.uid, n.from_ms, n.until_ms FROM narrow n
    SEMI JOIN (FROM beside ANTI JOIN resting USING (uid, half)) b ON b.uid = n.uid
        AND b.half = n.from_ms // ($quiet_ms // 2)
    WHERE n.up AND n.activity <= $quiet_permille
), islands AS (
    SELECT uid, from_ms, until_ms,
        until_ms - sum(until_ms - from_ms) OVER (PARTITION BY uid ORDER BY from_ms ROWS UNBOUNDED PRECEDING) AS island
        FROM low
    UNION ALL
    SELECT uid, from_ms, until_ms, k - row_number() OVER (PARTITION BY uid ORDER BY k)
    FROM ordered WHERE up AND activity <= $quiet_permille AND until_ms > from_ms
), spans AS (
    SELECT uid, min(from_ms) AS from_ms, max(until_ms) AS until_ms, sum(until_ms - from_ms) AS observed_ms
    FROM islands GROUP BY uid, island
)
SELECT uid, from_ms, until_ms FROM spans WHERE observed_ms >= $quiet_ms;

-- What is held meanwhile, by the hour: each hour is told by its own samples.
-- only with quiet
CREATE OR REPLACE TEMP TABLE quiet_memory AS
WITH low AS (
    SELECT uid, from_ms, until_ms, memory_mb FROM narrow SEMI JOIN quiet USING (uid) WHERE up
        AND activity <= $quiet_permille AND until_ms > from_ms
), hourly AS (
    SELECT uid, from_ms // 3600000 * 3600000 AS hour_ms, memory_mb FROM low
    UNION ALL
    SELECT uid, unnest(range(from_ms // 3600000 * 3600000 + 3600000, until_ms, 3600000)), memory_mb FROM low
    WHERE (until_ms - 1) // 3600000 > from_ms // 3600000
)
SELECT uid, hour_ms, max(memory_mb) AS memory_mb FROM hourly GROUP BY ALL;

-- Whether any of them spins: where none does, nobody waits for others in a barrier or a collective.
CREATE OR REPLACE TEMP TABLE any_spinning AS SELECT uid FROM narrow WHERE spins AND up LIMIT 1
