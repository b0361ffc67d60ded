-- What is known of each run in each ten minutes: sums of integers, over its GPUs and over the hosts it runs on.

-- only with checkpoints
CREATE OR REPLACE TEMP TABLE checkpoint_minutes AS
SELECT k.rid, c.minute // 1000 AS minute_ms, coalesce(c.network_bytes * 2 > c.written_bytes, false) AS over_network
    FROM checkpoints c JOIN run_keys k USING (run_id)
WHERE c.minute >= $from_us AND c.minute < $until_us;

-- What runs say of how long their steps waited for data, of the time in which their GPUs worked and saved nothing. A
-- wait is told when it is over: a word speaks for the time since the run's word before it, in the same hour, so that no
-- hour needs another's; else for its own interval. A window of which less than half is told is not.
-- only with progress
CREATE OR REPLACE TEMP TABLE data_waits AS
WITH words AS (
    SELECT k.rid, p.node, p.started_at // 1000 AS started_ms, p.ended_at // 1000 AS until_ms,
        milli(p.data_wait_seconds) AS wait_ms, lag(p.ended_at // 1000) OVER (PARTITION BY k.rid, p.node,
            p.started_at // 3600000000 ORDER BY p.started_at, p.ended_at, p.data_wait_seconds) AS before_ms
    FROM progress p JOIN run_names k ON k.run_id = p.run_id AND p.started_at >= k.from_us AND p.started_at < k.until_us
    WHERE p.ended_at > $from_us AND p.started_at < $until_us AND milli(p.data_wait_seconds) >= 0
        AND p.ended_at > p.started_at
), told AS (
    SELECT rid, node, if(started_ms - before_ms BETWEEN 0 AND 600000
        AND (until_ms - 1) // 3600000 = started_ms // 3600000, before_ms, started_ms) AS from_ms, until_ms,
        greatest(1, until_ms - from_ms) AS ms, least(wait_ms, ms) AS wait_ms
    FROM words
), worked AS (
    SELECT rid, from_ms // 600000 * 600000 AS window_ms, min(from_ms) AS from_ms, max(from_ms + ms) AS until_ms
    FROM pieces SEMI JOIN told USING (rid) WHERE NOT is_fixed AND up AND activity IS NOT NULL AND ms > 0 GROUP BY ALL
), saves AS (
    SELECT rid, minute_ms // 600000 * 600000 AS window_ms, count(*) * 60000 AS ms FROM checkpoint_minutes GROUP BY ALL
), sums AS (
    SELECT w.rid, w.window_ms, any_value(w.until_ms - w.from_ms) AS window_long, count(DISTINCT t.node) AS nodes,
        sum(o.ms)::BIGINT AS ms, sum(t.wait_ms::HUGEINT * o.ms // t.ms)::BIGINT AS wait_ms
    FROM worked w JOIN told t ON t.rid = w.rid AND t.from_ms < w.until_ms AND t.until_ms > w.from_ms
    CROSS JOIN LATERAL (SELECT least(t.until_ms, w.until_ms) - greatest(t.from_ms, w.from_ms) AS ms) o GROUP BY ALL
)
SELECT rid, window_ms, least(1000, wait_ms * 1000
    // greatest(1, least(s.ms, nodes * (window_long - coalesce(c.ms, 0)))))::BIGINT AS data_wait
FROM sums s LEFT JOIN saves c USING (rid, window_ms) WHERE s.ms * 2 >= window_long;

-- What each slice's working pieces come to in each ten minutes, in one pass over them. `still` is the time without a
-- kernel; `short` the time in which the chip was busy in the driver's sense and yet below the run's own yardstick, as
-- spinning in a collective is; `saving` the stand-still of a checkpoint. Clock losses are taken of what is left:
-- beside_* where
-- `short` is booked apart, whole_* where it is not; that is decided only when the window is judged.
CREATE OR REPLACE TEMP TABLE work AS
WITH wide AS (
    SELECT p.sid, p.from_ms, p.from_ms // 600000 * 600000 AS window_ms,
        p.from_ms // $bucket_ms * $bucket_ms AS bucket_ms, p.ms::BIGINT AS ms, p.sample_ms,
        p.activity::BIGINT AS activity, p.utilization::BIGINT AS utilization, p.tensor::BIGINT AS tensor,
            p.dram::BIGINT AS dram, p.power::BIGINT AS power,
        p.has_sm, p.zero IS NOT NULL AS has_shares, if(p.slowed >= $slowed_permille, p.slowed, 0)::BIGINT AS slowed,
            if(p.slowed >= $slowed_permille, p.slowed_by, 0) AS slowed_by,
        p.spins, p.pcie_in_kb::BIGINT AS pcie_in_kb, p.pcie_out_kb::BIGINT AS pcie_out_kb, p.nvlink_kb,
            y.best::BIGINT AS best,
            c.rid IS NOT NULL AS in_checkpoint, coalesce(c.over_network, false) AS over_network,
        -- Little of it is noise, unless the run says that it waited; what no sensor can see, it says alone.
        least(1000, greatest(0, p.zero, CASE WHEN p.utilization < $full_permille OR d.data_wait IS NOT NULL
            THEN coalesce(1000 - p.utilization, if(p.zero IS NULL, least(d.data_wait, 1000 - p.activity), 0))
            ELSE 0 END))::BIGINT AS still
    FROM pieces p
    LEFT JOIN data_waits d ON d.rid = p.rid AND d.window_ms = p.from_ms // 600000 * 600000
    LEFT JOIN yardsticks y ON y.rid = p.rid AND y.hour_ms = p.from_ms // 3600000 * 3600000
    LEFT JOIN checkpoint_minutes c ON c.rid = p.rid AND c.minute_ms = p.from_ms // 60000 * 60000
    WHERE p.rid IS NOT NULL AND NOT p.is_fixed AND p.up AND p.activity IS NOT NULL AND p.ms > 0
), measured AS (
    SELECT *, CASE WHEN NOT has_sm OR best IS NULL OR best <= 2 * $spinning_permille
        OR coalesce(dram, 0) >= $decode_permille
                        OR activity * 1000 >= best * (1000 - still) // 1000 * $deadband_permille THEN 0
                   ELSE least(1000 - still,
                       greatest(0, (best * (1000 - still) // 1000 - activity) * 1000
                       // (best - $spinning_permille))) END AS short,
        ms * still // 1000 AS stood_ms
    FROM wide
), whole AS (
    SELECT *, if(in_checkpoint, stood_ms, 0) AS saving_ms, if(in_checkpoint, 0, stood_ms) AS still_ms,
        ms * short // 1000 AS short_ms,
        if(spins, ms - stood_ms - (ms - stood_ms) * slowed // 1000, 0) AS spin_ms,
        (ms - stood_ms) * slowed // 1000 AS whole_ms, (ms - stood_ms - ms * short // 1000) * slowed // 1000 AS beside_ms
    FROM measured
), by_cause AS (
    SELECT sid, window_ms, bucket_ms, in_checkpoint, over_network, slowed_by, min(from_ms) AS from_ms,
        max(from_ms + ms) AS until_ms, sum(ms)::BIGINT AS ms,
        sum(saving_ms)::BIGINT AS saving_ms, sum(still_ms)::BIGINT AS still_ms, sum(short_ms)::BIGINT AS short_ms,
            sum(whole_ms)::BIGINT AS whole_ms, sum(beside_ms)::BIGINT AS beside_ms, sum(spin_ms)::BIGINT AS spin_ms,
        sum(ms) FILTER (has_sm)::BIGINT AS sm_ms, sum(ms) FILTER (has_shares)::BIGINT AS shares_ms,
            sum(activity * ms) AS activity,
        sum(utilization * ms) AS utilization, sum(tensor * ms) AS tensor, sum(dram * ms) AS dram,
            sum(power * ms) AS power, sum(slowed * ms) AS slowed,
        max(best) AS best, sum(pcie_in_kb * ms // sample_ms) AS pcie_in_kb,
            sum(pcie_out_kb * ms // sample_ms) AS pcie_out_kb, sum(nvlink_kb * ms // sample_ms) AS nvlink_kb
    FROM whole GROUP BY ALL
), told AS (
    SELECT sid, window_ms, bucket_ms, in_checkpoint, over_network, min(from_ms) AS from_ms, max(until_ms) AS until_ms,
        sum(ms)::BIGINT AS ms, sum(saving_ms)::BIGINT AS saving_ms, sum(still_ms)::BIGINT AS still_ms,
        sum(short_ms)::BIGINT AS short_ms, sum(spin_ms)::BIGINT AS spin_ms,
        coalesce(sum(whole_ms) FILTER (slowed_by = 1), 0)::BIGINT AS whole_power_ms,
            coalesce(sum(whole_ms) FILTER (slowed_by = 2), 0)::BIGINT AS whole_heat_ms,
        coalesce(sum(whole_ms) FILTER (slowed_by = 3), 0)::BIGINT AS whole_board_ms,
            coalesce(sum(beside_ms) FILTER (slowed_by = 1), 0)::BIGINT AS beside_power_ms,
        coalesce(sum(beside_ms) FILTER (slowed_by = 2), 0)::BIGINT AS beside_heat_ms,
            coalesce(sum(beside_ms) FILTER (slowed_by = 3), 0)::BIGINT AS beside_board_ms,
        sum(sm_ms) AS sm_ms, sum(shares_ms) AS shares_ms, sum(activity) AS activity,
        sum(utilization) AS utilization, sum(tensor) AS tensor, sum(dram) AS dram, sum(power) AS power,
            sum(slowed) AS slowed,
        max(best) AS best, sum(pcie_in_kb) AS pcie_in_kb, sum(pcie_out_kb) AS pcie_out_kb, sum(nvlink_kb) AS nvlink_kb
    FROM by_cause GROUP BY ALL
)
SELECT s.rid, s.uid, t.* FROM told t JOIN slices s USING (sid);

-- only with work
CREATE OR REPLACE TEMP TABLE gpu_windows AS
SELECT rid, window_ms, uid, sum(ms) AS ms, sum(sm_ms) AS sm_ms, sum(shares_ms) AS shares_ms, sum(activity) AS activity,
    sum(still_ms) AS still_ms, sum(short_ms) AS short_ms, sum(spin_ms) AS spin_ms,
    sum(utilization) AS utilization, sum(tensor) AS tensor, sum(dram) AS dram, sum(power) AS power,
        sum(slowed) // sum(ms) AS slowed, max(best) AS best,
    sum(pcie_in_kb) AS pcie_in_kb, sum(pcie_out_kb) AS pcie_out_kb, sum(nvlink_kb) AS nvlink_kb
FROM work WHERE NOT in_checkpoint GROUP BY ALL;

-- For how long the GPUs of a run that spin do so at once, by whole minutes, and how many they are. What is not sampled
-- in a minute says nothing of it.
-- only with any_spinning
CREATE OR REPLACE TEMP TABLE stuck_windows AS
WITH spun AS (
    SELECT p.rid, s.uid, p.from_ms // 600000 * 600000 AS window_ms, p.from_ms // 60000 AS minute,
        sum(p.ms)::BIGINT AS ms
    FROM pieces p JOIN slices s USING (sid)
    WHERE p.spins AND p.up AND p.rid IS NOT NULL AND NOT p.is_fixed GROUP BY ALL
    HAVING sum(p.ms) * 1000 >= greatest(60000, max(p.ms)) * $spun_permille
), whose AS (
    SELECT DISTINCT rid, uid, window_ms FROM spun
), broken AS (
    SELECT DISTINCT w.rid, w.window_ms, p.from_ms // 60000 AS minute
    FROM pieces p JOIN slices s USING (sid)
    JOIN whose w ON w.rid = p.rid AND w.uid = s.uid AND w.window_ms = p.from_ms // 600000 * 600000
    GROUP BY w.rid, w.window_ms, w.uid, minute
    HAVING sum(p.ms) FILTER (p.spins IS NOT TRUE) * 1000 > sum(p.ms) * (1000 - $wholly_spinning_permille)
), minutes AS (
    SELECT rid, window_ms, minute, count(*) AS gpus, sum(ms) AS ms FROM spun
    ANTI JOIN broken USING (rid, window_ms, minute) GROUP BY ALL
)
SELECT rid, window_ms, any_value(n.stuck_gpus) AS stuck_gpus, sum(m.ms // m.gpus)::BIGINT AS stuck_ms
FROM minutes m JOIN (SELECT rid, window_ms, count(*) AS stuck_gpus FROM whose GROUP BY ALL) n USING (rid, window_ms)
WHERE m.gpus * 2 >= n.stuck_gpus GROUP BY ALL;

-- For how long all of them go on beyond the end of an hour, and how many GPUs of the run are gone then: later samples
-- are known where an hour is judged.
-- only with stuck_windows
CREATE OR REPLACE TEMP TABLE stuck_beyond AS
WITH told AS (
    SELECT w.rid, w.window_ms, w.stuck_gpus, s.uid,
        least(min(n.from_ms) FILTER (n.spins IS NOT TRUE OR NOT n.up), max(n.until_ms)) - w.window_ms - 600000 AS on_ms,
        coalesce(bool_or(n.up AND (n.activity > $quiet_permille OR n.memory_mb > $held_mb)), false) AS is_there
    FROM stuck_windows w
    JOIN (SELECT DISTINCT rid, uid, hour_ms FROM slices) s ON s.rid = w.rid AND s.hour_ms + 3000000 = w.window_ms
    LEFT JOIN narrow n ON n.uid = s.uid AND n.until_ms > w.window_ms + 600000 AND n.from_ms < w.window_ms + 1200000
    GROUP BY w.rid, w.window_ms, w.stuck_gpus, s.uid
)
SELECT rid, window_ms, min(on_ms) FILTER (on_ms > 0)::BIGINT AS stuck_on_ms, count(*) FILTER (NOT is_there) AS gone_on
FROM told GROUP BY rid, window_ms, stuck_gpus HAVING count(*) FILTER (on_ms > 0) = stuck_gpus;

-- GPUs that rest for long while others of their run spin: how many of them count in the window, as those do whose rest
-- is not long enough to be a state of its own; how many have memory in use, and the cores of the busiest process on
-- those: it may join yet.
-- only with quiet, stuck_windows
CREATE OR REPLACE TEMP TABLE resting_windows AS
WITH apart AS (
    SELECT DISTINCT s.rid, s.uid,
        unnest(range(s.from_ms // 600000 * 600000, s.until_ms, 600000)) AS window_ms
    FROM slices s SEMI JOIN stuck_windows USING (rid) WHERE s.fixed IS NOT NULL AND s.rid IS NOT NULL
), resting AS (
    SELECT r.rid, r.uid, r.window_ms, r.counts, max(n.memory_mb) > $held_mb AS has_memory FROM (
        SELECT *, false AS counts FROM apart
        UNION ALL SELECT rid, uid, window_ms, true FROM gpu_windows g SEMI JOIN stuck_windows USING (rid, window_ms)
            WHERE still_ms * 1000 >= ms * $wholly_spinning_permille
    ) r SEMI JOIN quiet USING (uid)
    JOIN narrow n ON n.uid = r.uid AND n.from_ms // 600000 * 600000 = r.window_ms AND n.activity <= $quiet_permille
    GROUP BY ALL
), used AS (
    SELECT r.rid, r.uid, r.window_ms,
        sum(milli(p.cpu_seconds)) * 1000000 // greatest(sum(p.ended_at - p.started_at), 1) AS cores
    FROM (SELECT DISTINCT rid, uid, window_ms FROM resting WHERE has_memory) r JOIN units u USING (uid)
    JOIN process_samples p ON p.gpu_uuid = u.uuid AND p.started_at // 600000000 * 600000 = r.window_ms
    WHERE p.started_at >= $from_us AND p.started_at < $until_us AND p.cpu_seconds IS NOT NULL
    GROUP BY r.rid, r.uid, r.window_ms, p.pid
)
SELECT rid, window_ms, count(DISTINCT uid) FILTER (counts) AS stopped_gpus,
    count(DISTINCT uid) FILTER (has_memory) AS resting_gpus, max(cores)::BIGINT AS resting_cores_milli
FROM resting LEFT JOIN used USING (rid, uid, window_ms) GROUP BY ALL;

-- only with progress
CREATE OR REPLACE TEMP TABLE step_windows AS
SELECT k.rid, p.started_at // 600000000 * 600000 AS window_ms, amount(sum(p.steps)) AS steps
FROM progress p JOIN run_names k ON k.run_id = p.run_id AND p.started_at >= k.from_us AND p.started_at < k.until_us
WHERE p.started_at >= $from_us AND p.started_at < $until_us GROUP BY ALL;

-- How each rank stands among its run's, in the middle and at both ends: the odd one out holds up the others.
-- only with gpu_windows
CREATE OR REPLACE TEMP TABLE rank_windows AS
WITH ranks AS (
    SELECT rid, window_ms, uid, activity // ms AS activity, still_ms * 1000 // ms AS still, power // ms AS power
        FROM gpu_windows WHERE ms > 0
), middle AS (
    SELECT rid, window_ms, quantile_disc(activity, 0.5) AS activity, quantile_disc(still, 0.5) AS still,
        quantile_disc(power, 0.5) AS power
    FROM ranks GROUP BY ALL HAVING count(*) > 2
), spread AS (
    SELECT r.*, m.activity AS activity_median, m.still AS still_median, m.power AS power_median,
        abs(r.activity - m.activity) AS activity_off, abs(r.still - m.still) AS still_off,
            abs(r.power - m.power) AS power_off, u.uuid
    FROM ranks r JOIN middle m USING (rid, window_ms) JOIN units u USING (uid)
)
SELECT rid, window_ms, any_value(activity_median)::BIGINT AS activity_median,
    any_value(still_median)::BIGINT AS still_median, any_value(power_median)::BIGINT AS power_median,
    max(activity)::BIGINT AS activity_most, max(still)::BIGINT AS still_most, max(power)::BIGINT AS power_most,
    quantile_disc(activity_off, 0.5)::BIGINT AS activity_spread, quantile_disc(still_off, 0.5)::BIGINT AS still_spread,
        quantile_disc(power_off, 0.5)::BIGINT AS power_spread,
    arg_max(uuid, (activity, -uid)) AS active_gpu, arg_max(uuid, (still, -uid)) AS still_gpu,
    arg_max(uuid, (power, -uid)) FILTER (power IS NOT NULL) AS power_gpu
FROM spread GROUP BY ALL;

-- How much ranks wait for whichever of them has most to do, and how much of it for the one that is waited for most.
-- Those sampled together are compared, in intervals in which all have kernels alike, send each other bytes and differ
-- by more than noise. Who waits draws less power too, and two sensors do not err together.
-- only with rank_windows
CREATE OR REPLACE TEMP TABLE uneven_windows AS
WITH asked AS (
    SELECT rid, window_ms FROM gpu_windows GROUP BY ALL
    HAVING count(*) > 2 AND sum(sm_ms) * 2 >= sum(ms) AND max(best) > 2 * $spinning_permille
        AND sum(short_ms) * 1000 >= sum(ms) * $exchange_short_permille AND coalesce(sum(nvlink_kb) > 0, true)
), slots AS (
    SELECT p.rid, a.window_ms, any_value(p.sample_ms)::BIGINT AS ms, count(*) AS ranks,
        max(p.activity)::BIGINT AS activity_most, sum(p.activity)::BIGINT AS activity, sum(p.power)::BIGINT AS power,
        sum(p.activity::BIGINT * p.activity) AS squares, sum(p.activity::BIGINT * p.power) AS products,
        arg_max(l.uid, (p.activity, -l.uid)) AS busiest
    FROM pieces p JOIN asked a ON a.rid = p.rid AND a.window_ms = p.from_ms // 600000 * 600000
    JOIN slices l USING (sid)
    CROSS JOIN LATERAL (SELECT coalesce(p.zero, 1000 - p.utilization)::BIGINT AS still) s
    WHERE NOT p.is_fixed AND p.up AND p.has_sm AND p.ms = p.sample_ms
    GROUP BY p.rid, a.window_ms, (p.from_ms + p.sample_ms // 20) // greatest(1, p.sample_ms // 10)
    HAVING count(*) > 2 AND max(still) - min(still) <= $low_permille AND count(p.power) = count(*)
        AND coalesce(sum(p.nvlink_kb) >= sum(p.ms) * $exchange_kb_per_ms, true)
        AND (max(p.activity) * count(*) - sum(p.activity)) * 1000
            >= (max(p.activity) - $spinning_permille) * count(*) * $apart_permille
), by_busiest AS (
    SELECT rid, window_ms, busiest, max(activity_most) AS works,
        sum((activity_most * ranks - activity) * ms)::BIGINT AS waited,
        sum(ranks * products - activity * power)::HUGEINT AS common,
        sum(ranks * squares - activity * activity)::HUGEINT AS spread
    FROM slots GROUP BY ALL
)
SELECT rid, window_ms, (sum(waited) * 1000 // (max(works) - $spinning_permille))::BIGINT AS uneven,
    (max(waited) * 1000 // greatest(1, sum(waited)))::BIGINT AS uneven_most
FROM by_busiest GROUP BY ALL
HAVING max(works) > 2 * $spinning_permille AND sum(common) * 1000 >= sum(spread) * $uneven_power_permille;

CREATE OR REPLACE TEMP TABLE run_nodes AS
SELECT DISTINCT g.rid, g.window_ms, u.nid FROM gpu_windows g JOIN units u USING (uid);

-- only with host_samples|disk_samples|network_samples
CREATE OR REPLACE TEMP TABLE host_windows AS
WITH hosts AS (
    SELECT n.nid, started_at // 600000000 * 600000 AS window_ms,
        avg(permille(cpu_busy_ratio))::BIGINT AS cpu_busy,
        avg(permille(pressure_io_some_ratio))::BIGINT AS pressure_io,
            avg(permille(pressure_cpu_some_ratio))::BIGINT AS pressure_cpu,
        avg(permille(pressure_memory_some_ratio))::BIGINT AS pressure_memory,
        min(permille_of(memory_available_bytes::DOUBLE, memory_available_bytes + memory_used_bytes))::BIGINT
            AS memory_spare
    FROM host_samples JOIN nodes n USING (node) JOIN chunk_nodes USING (nid) WHERE started_at >= $from_us
        AND started_at < $until_us GROUP BY ALL
), devices AS (
    SELECT n.nid, started_at // 600000000 * 600000 AS window_ms, device, mount_kind = 'block' AS is_block,
        amount(sum(read_bytes)) AS read_bytes, amount(sum(written_bytes)) AS written_bytes,
            avg(permille(busy_ratio))::BIGINT AS busy, amount(sum(micro(read_wait_seconds))) AS waited,
        (max(ended_at) - min(started_at)) // 1000 AS span_ms
    FROM disk_samples JOIN nodes n USING (node) JOIN chunk_nodes USING (nid) WHERE started_at >= $from_us
        AND started_at < $until_us GROUP BY ALL
), disks AS (
    SELECT nid, window_ms, max(busy) FILTER (is_block) AS disk_busy,
        sum(read_bytes * 1000 // greatest(span_ms, 1)) FILTER (is_block) AS block_read,
            sum(read_bytes * 1000 // greatest(span_ms, 1)) FILTER (NOT is_block) AS mount_read,
        sum(written_bytes * 1000 // greatest(span_ms, 1)) AS written,
        sum(waited // greatest(span_ms, 1)) FILTER (is_block) AS disk_waited,
        sum(waited // greatest(span_ms, 1)) FILTER (NOT is_block) AS mount_waited
    FROM devices GROUP BY ALL
), links AS (
    SELECT n.nid, started_at // 600000000 * 600000 AS window_ms,
        amount(sum(transmit_bytes) FILTER (link_kind <> 'ethernet')) AS rdma_out,
        amount(max(speed_bytes_per_second) FILTER (link_kind <> 'ethernet')::HUGEINT
            * count(DISTINCT device) FILTER (link_kind <> 'ethernet')) // 1000000000 AS ports_gb,
        amount(sum(receive_bytes) FILTER (link_kind = 'ethernet') * 1000000 // greatest(max(ended_at) - min(started_at),
            1)) AS network_in
    FROM network_samples JOIN nodes n USING (node) JOIN chunk_nodes USING (nid) WHERE started_at >= $from_us
        AND started_at < $until_us GROUP BY ALL
)
SELECT * FROM hosts FULL JOIN disks USING (nid, window_ms) FULL JOIN links USING (nid, window_ms);

-- A process on several GPUs tells its processor time beside each of them: it is taken once.
-- only with process_samples
CREATE OR REPLACE TEMP TABLE process_windows AS
WITH processes AS (
    SELECT k.rid, started_at // 600000000 * 600000 AS window_ms, m.nid, pid, hash(gpu_uuid) AS gpu,
        max(workers) AS workers,
        sum(milli(workers_busiest_cpu_ratio)) AS busiest, count(workers_busiest_cpu_ratio) AS busiest_told,
        sum(milli(workers_waiting_ratio)) AS waiting, count(workers_waiting_ratio) AS waiting_told,
        sum(milli(cpu_seconds)) * 1000000 // greatest(sum(ended_at - started_at), 1) AS cores
    FROM process_samples s JOIN nodes m USING (node) JOIN chunk_nodes USING (nid) JOIN run_names k
        ON k.run_id = s.run_id AND s.started_at >= k.from_us AND s.started_at < k.until_us
    WHERE started_at >= $from_us AND started_at < $until_us GROUP BY ALL
), once AS (
    SELECT rid, window_ms, nid, pid, max(cores) AS cores, max(workers) AS workers, sum(busiest) AS busiest,
        sum(busiest_told) AS busiest_told, sum(waiting) AS waiting, sum(waiting_told) AS waiting_told
    FROM processes GROUP BY ALL
)
SELECT rid, window_ms, max(workers) AS workers, round(sum(busiest) / nullif(sum(busiest_told), 0))::BIGINT AS busiest,
    round(sum(waiting) / nullif(sum(waiting_told), 0))::BIGINT AS waiting, amount(sum(cores)) AS cores_of_processes,
    any_value(a.gpus_alive) AS gpus_alive
FROM once JOIN (SELECT rid, window_ms, count(DISTINCT gpu) AS gpus_alive FROM processes GROUP BY ALL) a
    USING (rid, window_ms)
GROUP BY ALL;

-- The video decoder is no part of utilization, and few runs use it.
-- only with gpu_windows
CREATE OR REPLACE TEMP TABLE decoder_windows AS
WITH used AS (
    SELECT u.uid, s.started_at // 600000000 * 600000 AS window_ms,
        sum(permille(decoder_utilization_ratio) * ((ended_at - started_at) // 1000)) // 600000 AS decoder
    FROM gpu_samples s JOIN units u ON u.uuid = s.gpu_uuid
    WHERE decoder_utilization_ratio >= 0.05 AND started_at >= $from_us AND started_at < $until_us
        AND u.gid IN (SELECT gid FROM chunk_gpus) GROUP BY ALL
)
SELECT g.rid, g.window_ms, max(least(1000, decoder * 600000 // g.ms))::BIGINT AS decoder
FROM used JOIN gpu_windows g USING (uid, window_ms) WHERE g.ms > 0 GROUP BY ALL;

-- only with run_samples
CREATE OR REPLACE TEMP TABLE cgroup_windows AS
SELECT k.rid, started_at // 600000000 * 600000 AS window_ms,
    amount(sum(milli(cpu_seconds)) * 1000000 // greatest(sum(ended_at - started_at), 1)
        * count(DISTINCT node)) AS cores_of_cgroup,
    (avg(milli(cores_allotted)) * count(DISTINCT node))::BIGINT AS cores_milli,
    amount(sum(micro(cpu_throttled_seconds)) * 1000 // greatest(sum(ended_at - started_at),
        1)) AS cpu_throttled,
    avg(permille(pressure_io_some_ratio))::BIGINT AS pressure_io,
        avg(permille(pressure_cpu_some_ratio))::BIGINT AS pressure_cpu,
    avg(permille(pressure_memory_some_ratio))::BIGINT AS pressure_memory
FROM run_samples s JOIN nodes m USING (node) JOIN chunk_nodes USING (nid) JOIN run_names k ON k.run_id = s.run_id
    AND s.started_at >= k.from_us AND s.started_at < k.until_us
WHERE started_at >= $from_us AND started_at < $until_us GROUP BY ALL;

-- only with dips
CREATE OR REPLACE TEMP TABLE dip_windows AS
SELECT s.rid, d.from_ms // 600000 * 600000 AS window_ms, count(*) AS dips, count(*) FILTER (d.refilled) AS refills
FROM dips d JOIN slices s ON s.uid = d.uid AND s.from_ms <= d.from_ms AND s.until_ms > d.from_ms AND s.rid IS NOT NULL
    GROUP BY ALL
