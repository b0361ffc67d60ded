-- What each run's GPUs did in ten minutes, and what its hosts, its processes and itself said meanwhile.
-- only with gpu_windows
CREATE OR REPLACE TEMP TABLE run_windows_here AS
WITH gpus AS (
    SELECT g.rid, window_ms, count(*) AS gpus, nullif(count(DISTINCT m.member), 0) AS members, sum(ms)::BIGINT AS ms,
        coalesce(sum(sm_ms), 0)::BIGINT AS sm_ms, coalesce(sum(shares_ms), 0)::BIGINT AS shares_ms,
        (sum(activity) // sum(ms))::BIGINT AS activity, (sum(still_ms) * 1000 // sum(ms))::BIGINT AS still,
            (sum(short_ms) * 1000 // sum(ms))::BIGINT AS short, (sum(spin_ms) * 1000 // sum(ms))::BIGINT AS spinning,
        count(*) FILTER (spin_ms * 1000 >= ms * $wholly_spinning_permille) AS spinning_gpus,
        count(*) FILTER (utilization >= ms * $hang_utilization_permille) AS busy_gpus,
        (sum(utilization) // sum(ms))::BIGINT AS utilization, (sum(tensor) // sum(sm_ms))::BIGINT AS tensor,
            (sum(dram) // sum(sm_ms))::BIGINT AS dram,
        (sum(power) // sum(ms))::BIGINT AS power, max(slowed)::BIGINT AS slowed_most,
            min(slowed)::BIGINT AS slowed_least, max(best)::BIGINT AS best,
        arg_max(g.uid, (slowed, -g.uid)) FILTER (slowed >= 30) AS slowest_uid,
        sum(pcie_in_kb)::BIGINT AS pcie_in_kb, sum(pcie_out_kb)::BIGINT AS pcie_out_kb,
            sum(nvlink_kb)::BIGINT AS nvlink_kb
    FROM gpu_windows g ASOF LEFT JOIN service_members m ON m.rid = g.rid AND m.uid = g.uid
        AND m.from_ms < g.window_ms + 600000 GROUP BY ALL
), hosts AS (
    SELECT r.rid, r.window_ms, count(*) AS nodes, avg(h.cpu_busy)::BIGINT AS cpu_busy,
        avg(h.pressure_io)::BIGINT AS host_pressure_io, avg(h.pressure_cpu)::BIGINT AS host_pressure_cpu,
        max(h.pressure_memory) AS host_pressure_memory, min(h.memory_spare) AS host_memory_spare,
            max(h.disk_busy) AS disk_busy,
        amount(sum(h.block_read)) AS block_read, amount(sum(h.mount_read)) AS mount_read,
            amount(sum(h.written)) AS written, max(h.disk_waited)::BIGINT AS disk_waited,
        max(h.mount_waited)::BIGINT AS mount_waited, amount(sum(h.rdma_out)) AS rdma_out,
        min(h.ports_gb)::BIGINT AS ports_gb,
        amount(sum(h.network_in)) AS network_in
    FROM run_nodes r LEFT JOIN host_windows h USING (nid, window_ms) GROUP BY ALL
), beside AS (
    -- Apart: each join hands on all columns that came to it, and these are few.
    SELECT rid, window_ms, {beside} FROM (SELECT rid, window_ms FROM gpus) {joined}
)
SELECT k.run_id, g.*, h.* EXCLUDE (rid, window_ms),
    b.* EXCLUDE (rid, window_ms, cores_of_cgroup, cores_of_processes) REPLACE (b.uneven // g.ms AS uneven),
    coalesce(b.cores_of_cgroup, b.cores_of_processes) AS cores_used_milli, u.uuid AS slowest_gpu,
    r.* EXCLUDE (rid, window_ms)
FROM gpus g JOIN run_keys k USING (rid) JOIN hosts h USING (rid, window_ms) JOIN beside b USING (rid, window_ms)
LEFT JOIN units u ON u.uid = g.slowest_uid LEFT JOIN rank_windows r USING (rid, window_ms)
