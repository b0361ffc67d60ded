-- A row is one GPU (or MIG instance) over one interval.
CREATE TABLE gpu_samples (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    parent_uuid VARCHAR,
    up BOOLEAN,
    utilization_ratio DOUBLE,
    utilization_zero_ratio DOUBLE,
    utilization_low_ratio DOUBLE,
    utilization_high_ratio DOUBLE,
    memory_used_bytes BIGINT,
    memory_reserved_bytes BIGINT,
    sm_active_ratio DOUBLE,
    sm_occupancy_ratio DOUBLE,
    tensor_active_ratio DOUBLE,
    dram_active_ratio DOUBLE,
    pcie_receive_bytes BIGINT,
    pcie_transmit_bytes BIGINT,
    nvlink_receive_bytes BIGINT,
    nvlink_transmit_bytes BIGINT,
    power_watts DOUBLE,
    energy_joules DOUBLE,
    energy_joules_total DOUBLE,
    energy_epoch BIGINT,
    temperature_celsius DOUBLE,
    sm_clock_hertz DOUBLE,
    sm_clock_reference_hertz DOUBLE,
    throttle_power_seconds DOUBLE,
    throttle_thermal_seconds DOUBLE,
    throttle_hardware_seconds DOUBLE,
    xid_events BIGINT,
    ecc_uncorrected_events BIGINT,
    batch BIGINT NOT NULL
);

-- A row is one host over one interval.
CREATE TABLE host_samples (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    cpu_busy_ratio DOUBLE,
    cpu_iowait_ratio DOUBLE,
    pressure_cpu_some_ratio DOUBLE,
    pressure_io_some_ratio DOUBLE,
    pressure_memory_some_ratio DOUBLE,
    memory_used_bytes BIGINT,
    memory_available_bytes BIGINT,
    batch BIGINT NOT NULL
);

-- A row is one block device or network mount over one interval.
CREATE TABLE disk_samples (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    device VARCHAR NOT NULL,
    mount_kind VARCHAR,
    read_bytes BIGINT,
    written_bytes BIGINT,
    reads BIGINT,
    writes BIGINT,
    busy_ratio DOUBLE,
    read_wait_seconds DOUBLE,
    batch BIGINT NOT NULL
);

-- A row is one NIC or RDMA port over one interval.
CREATE TABLE network_samples (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    device VARCHAR NOT NULL,
    link_kind VARCHAR,
    receive_bytes BIGINT,
    transmit_bytes BIGINT,
    errors BIGINT,
    batch BIGINT NOT NULL
);

-- A row is one (run, peer) pair over one interval.
CREATE TABLE flow_samples (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    peer VARCHAR NOT NULL,
    receive_bytes BIGINT,
    transmit_bytes BIGINT,
    retransmits BIGINT,
    batch BIGINT NOT NULL
);

-- A row is one run's process tree on a GPU over one interval.
CREATE TABLE process_samples (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    gpu_uuid VARCHAR,
    pid BIGINT,
    owner VARCHAR,
    memory_used_bytes BIGINT,
    sm_utilization_ratio DOUBLE,
    cpu_seconds DOUBLE,
    workers BIGINT,
    workers_busiest_cpu_ratio DOUBLE,
    workers_waiting_ratio DOUBLE,
    read_bytes BIGINT,
    written_bytes BIGINT,
    batch BIGINT NOT NULL
);

-- A row is one run on one host over one interval, from its cgroup.
CREATE TABLE run_samples (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    read_bytes BIGINT,
    written_bytes BIGINT,
    cpu_seconds DOUBLE,
    cpu_throttled_seconds DOUBLE,
    pressure_cpu_some_ratio DOUBLE,
    pressure_io_some_ratio DOUBLE,
    pressure_memory_some_ratio DOUBLE,
    memory_used_bytes BIGINT,
    cores_allotted DOUBLE,
    batch BIGINT NOT NULL
);

-- A row is one serving replica over one interval.
CREATE TABLE service_samples (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    requests BIGINT,
    tokens_in BIGINT,
    tokens_out BIGINT,
    running BIGINT,
    waiting BIGINT,
    kv_cache_ratio DOUBLE,
    first_token_seconds_p50 DOUBLE,
    first_token_seconds_p99 DOUBLE,
    slo_seconds DOUBLE,
    batch BIGINT NOT NULL
);

-- A row is what a run itself reports for one interval.
CREATE TABLE progress (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    steps BIGINT,
    samples BIGINT,
    tokens BIGINT,
    requests BIGINT,
    checkpoint VARCHAR,
    batch BIGINT NOT NULL
);

-- A row is one GPU requested, held and released by one run.
CREATE TABLE allocations (
    node VARCHAR,
    submitted_at BIGINT,
    started_at BIGINT,
    ended_at BIGINT,
    run_id VARCHAR NOT NULL,
    member VARCHAR,
    attempt BIGINT,
    parent_run_id VARCHAR,
    gpu_uuid VARCHAR,
    requested_gpus BIGINT,
    rank BIGINT,
    time_limit_seconds DOUBLE,
    priority DOUBLE,
    pending_reason VARCHAR,
    restarts_of VARCHAR,
    scheduler VARCHAR,
    user VARCHAR,
    account VARCHAR,
    project VARCHAR,
    name VARCHAR,
    queue VARCHAR,
    labels VARCHAR,
    exit_status VARCHAR,
    batch BIGINT NOT NULL
);

-- A row is a host's state in its scheduler over one interval.
CREATE TABLE node_states (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    state VARCHAR,
    reason VARCHAR,
    batch BIGINT NOT NULL
);

-- A row is the agent about itself over one interval.
CREATE TABLE agent_samples (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    cpu_seconds DOUBLE,
    rss_bytes BIGINT,
    beats_late BIGINT,
    gaps BIGINT,
    dropped_batches BIGINT,
    dropped_from BIGINT,
    dropped_until BIGINT,
    spool_bytes BIGINT,
    clock_offset_seconds DOUBLE,
    batch BIGINT NOT NULL
);

-- A row is a host (no gpu_uuid) or a GPU as detected, from started_at on.
CREATE TABLE inventory (
    node VARCHAR NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    gpu_uuid VARCHAR,
    parent_uuid VARCHAR,
    gpu_index BIGINT,
    pci_bus_id VARCHAR,
    sku VARCHAR,
    memory_bytes BIGINT,
    mig_slices BIGINT,
    mig_slices_max BIGINT,
    power_limit_watts DOUBLE,
    sm_clock_max_hertz DOUBLE,
    numa_node BIGINT,
    rack VARCHAR,
    block VARCHAR,
    zone VARCHAR,
    region VARCHAR,
    topology_source VARCHAR,
    node_group VARCHAR,
    instance_type VARCHAR,
    cpu_cores BIGINT,
    host_memory_bytes BIGINT,
    local_nvme_bytes BIGINT,
    pcie_generation BIGINT,
    pcie_generation_max BIGINT,
    pcie_width BIGINT,
    pcie_width_max BIGINT,
    nvlink_peers BIGINT,
    driver_version VARCHAR,
    batch BIGINT NOT NULL
);

-- A row is when a GPU is owned.
CREATE TABLE ownership (
    node VARCHAR NOT NULL,
    gpu_uuid VARCHAR,
    slot BIGINT,
    owned_from BIGINT NOT NULL,
    owned_until BIGINT,
    sku VARCHAR,
    purchase_option VARCHAR,
    source VARCHAR,
    batch BIGINT NOT NULL
);
