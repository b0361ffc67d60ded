-- What each run did in each hour, for the stage that it looks like. Sums of integers; nothing here is booked.

-- only with node_minutes
CREATE OR REPLACE TEMP TABLE hour_gpus AS
SELECT rid, minute_ms // 3600000 AS hour, sum(measured_ms)::BIGINT AS measured_ms,
    coalesce(sum(busy_ms), 0)::BIGINT AS busy_ms,
    coalesce(sum(busy_ms) FILTER (list_contains($office_hours_ms, minute_ms // 3600000 * 3600000)),
        0)::BIGINT AS office_busy_ms,
    sum(activity_ms)::BIGINT AS activity_ms, sum(sm_ms)::BIGINT AS sm_ms
FROM node_minutes GROUP BY ALL;

-- Minute by minute, as shares of the time with a kernel resident: reading memory (generation) or computing (updates).
-- only with node_minutes
CREATE OR REPLACE TEMP TABLE hour_phases AS
WITH minutes AS (
    SELECT rid, minute_ms // 60000 AS minute, sum(used) AS used, sum(tensor) AS tensor, sum(dram) AS dram
        FROM node_minutes WHERE used IS NOT NULL GROUP BY ALL
), kinds AS (
    SELECT rid, minute, minute // 60 AS hour, CASE WHEN tensor * 1000 >= used * $computing_tensor_permille THEN 'tensor'
        WHEN dram * 1000 >= used * $generating_dram_permille AND tensor * 1000 < used * $generating_tensor_permille
            THEN 'memory' END AS kind
    FROM minutes
), turned AS (
    SELECT rid, hour, count(*) AS turns FROM (
        SELECT rid, hour, kind, lag(kind) OVER (PARTITION BY rid, hour ORDER BY minute) AS before FROM kinds
            WHERE kind IS NOT NULL)
    WHERE kind <> before GROUP BY ALL
)
SELECT rid, hour, count(*) AS phase_minutes, count(*) FILTER (kind = 'memory') AS memory_minutes,
    count(*) FILTER (kind = 'tensor') AS tensor_minutes,
    coalesce(any_value(turns), 0) AS turns
FROM kinds LEFT JOIN turned USING (rid, hour) GROUP BY ALL;

-- only with quiet
CREATE OR REPLACE TEMP TABLE hour_pauses AS
SELECT h.rid, q.from_ms // 3600000 AS hour, count(*) AS pauses FROM quiet q JOIN holds h ON h.uid = q.uid
    AND q.from_ms > h.from_ms AND q.from_ms < h.until_ms
WHERE q.from_ms >= $from_us // 1000 AND q.from_ms < $until_us // 1000 GROUP BY ALL;

-- only with run_windows_here
CREATE OR REPLACE TEMP TABLE hour_windows AS
SELECT k.rid, w.window_ms // 3600000 AS hour, count(*) AS windows,
    count(*) FILTER (coalesce(w.nvlink_kb >= $exchange_kb_per_ms * w.ms, false)
        OR coalesce(w.nodes > 1 AND w.rdma_out // 1000 >= $exchange_kb_per_ms * w.ms, false)) AS exchange_windows,
    CASE WHEN count(w.rdma_out) > 0 THEN count(*)
        FILTER (w.nodes > 1 AND w.rdma_out // 1000 >= $exchange_kb_per_ms * w.ms) END AS fabric_windows,
    amount(sum(w.mount_read::HUGEINT * 600)) AS mount_read_bytes
FROM run_windows_here w JOIN run_keys k USING (run_id) GROUP BY ALL;

-- only with run_samples
CREATE OR REPLACE TEMP TABLE hour_cgroups AS
SELECT k.rid, s.started_at // 3600000000 AS hour,
    amount(sum(milli(cpu_seconds)) FILTER (cores_allotted IS NOT NULL)) AS cores_used_ms,
    amount(sum(milli(cores_allotted)::HUGEINT * (ended_at - started_at)) FILTER (cpu_seconds IS NOT NULL)
        // 1000000) AS cores_allotted_ms,
    amount(sum(ended_at - started_at) FILTER (pressure_io_some_ratio IS NOT NULL) // 1000) AS told_ms,
    amount(sum(permille(pressure_io_some_ratio) * (ended_at - started_at)) // 1000000) AS pressure_io_ms,
    amount(sum(read_bytes)) AS disk_read_bytes
FROM run_samples s JOIN run_names k ON k.run_id = s.run_id AND s.started_at >= k.from_us AND s.started_at < k.until_us
WHERE s.started_at >= $from_us AND s.started_at < $until_us GROUP BY ALL;

-- What was read as it started: by its cgroups from disks, and by its hosts from network mounts.
-- only with run_samples|disk_samples
CREATE OR REPLACE TEMP TABLE hour_starts AS
WITH starting AS (
    SELECT rid, min(started_us) AS from_us FROM run_summary WHERE started_us < $until_us
        AND started_us + 900000000 > $from_us GROUP BY rid
), reads AS (
    SELECT t.rid, s.started_at // 3600000000 AS hour, s.read_bytes FROM starting t JOIN run_names k USING (rid)
    JOIN run_samples s ON s.run_id = k.run_id AND s.started_at >= k.from_us AND s.started_at < k.until_us
        AND s.started_at < t.from_us + 900000000 AND s.ended_at > t.from_us
    WHERE s.started_at >= $from_us AND s.started_at < $until_us
    UNION ALL
    SELECT t.rid, d.started_at // 3600000000 AS hour, d.read_bytes FROM starting t
        JOIN (SELECT DISTINCT h.rid, n.node FROM holds h JOIN units USING (uid) JOIN nodes n USING (nid)) h USING (rid)
    JOIN disk_samples d ON d.node = h.node AND d.mount_kind <> 'block' AND d.started_at >= t.from_us
        AND d.started_at < t.from_us + 900000000
    WHERE d.started_at >= $from_us AND d.started_at < $until_us
)
SELECT rid, hour, amount(sum(read_bytes)) AS start_read_bytes FROM reads GROUP BY ALL;

-- only with run_doings
DELETE FROM run_doings WHERE hour >= $from_us AND hour < $until_us
    AND (run_id, hour // 1000) IN (SELECT (run_id, hour_ms) FROM remade);

-- only with hour_gpus
INSERT INTO run_doings BY NAME
SELECT k.run_id, g.hour * 3600000000 AS hour, g.* EXCLUDE (rid, hour), coalesce(q.pauses, 0) AS pauses,
    coalesce(p.phase_minutes, 0) AS phase_minutes,
    coalesce(p.memory_minutes, 0) AS memory_minutes, coalesce(p.tensor_minutes, 0) AS tensor_minutes,
        coalesce(p.turns, 0) AS turns,
    coalesce(w.windows, 0) AS windows, coalesce(w.exchange_windows, 0) AS exchange_windows, w.fabric_windows,
    c.* EXCLUDE (rid, hour, disk_read_bytes), s.start_read_bytes,
    CASE WHEN coalesce(c.disk_read_bytes, w.mount_read_bytes) IS NOT NULL THEN coalesce(c.disk_read_bytes, 0)
        + coalesce(w.mount_read_bytes, 0) END AS read_bytes
FROM hour_gpus g JOIN run_keys k USING (rid) LEFT JOIN hour_phases p USING (rid, hour) LEFT JOIN hour_pauses q
    USING (rid, hour)
LEFT JOIN hour_windows w USING (rid, hour) LEFT JOIN hour_cgroups c USING (rid, hour) LEFT JOIN hour_starts s
    USING (rid, hour)
