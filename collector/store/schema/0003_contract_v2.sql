ALTER TABLE gpu_samples ADD COLUMN memory_utilization_ratio DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN encoder_utilization_ratio DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN decoder_utilization_ratio DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN graphics_active_ratio DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN fp64_active_ratio DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN fp32_active_ratio DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN fp16_active_ratio DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN power_watts_min DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN power_watts_max DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN sm_clock_hertz_min DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN memory_clock_hertz DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN memory_temperature_celsius DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN throttle_sync_boost_seconds DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN pcie_replay_events BIGINT;
ALTER TABLE gpu_samples ADD COLUMN pcie_generation BIGINT;
ALTER TABLE gpu_samples ADD COLUMN pcie_generation_max BIGINT;
ALTER TABLE gpu_samples ADD COLUMN pcie_width BIGINT;
ALTER TABLE gpu_samples ADD COLUMN pcie_width_max BIGINT;
ALTER TABLE gpu_samples ADD COLUMN xid_last BIGINT;
ALTER TABLE gpu_samples ADD COLUMN xid_last_timestamp_seconds DOUBLE;
ALTER TABLE gpu_samples ADD COLUMN ecc_corrected_events BIGINT;
ALTER TABLE gpu_samples ADD COLUMN remapped_rows_corrected BIGINT;
ALTER TABLE gpu_samples ADD COLUMN remapped_rows_uncorrected BIGINT;
ALTER TABLE gpu_samples ADD COLUMN row_remap_pending BOOLEAN;
ALTER TABLE gpu_samples ADD COLUMN row_remap_failure BOOLEAN;
ALTER TABLE gpu_samples ADD COLUMN recovery_action VARCHAR;

ALTER TABLE network_samples ADD COLUMN speed_bytes_per_second DOUBLE;

ALTER TABLE flow_samples ADD COLUMN transport VARCHAR;

ALTER TABLE service_samples ADD COLUMN engine VARCHAR;

ALTER TABLE allocations ADD COLUMN gpu_fraction DOUBLE;

-- A row is a name by which hosts report a run that its scheduler knows by another.
CREATE TABLE run_aliases (
    alias_run_id VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    member VARCHAR,
    batch BIGINT NOT NULL
);

ALTER TABLE agent_samples ADD COLUMN gpus_expected BIGINT;
ALTER TABLE agent_samples ADD COLUMN gpus_seen BIGINT;
ALTER TABLE agent_samples ADD COLUMN sources_failing BIGINT;
ALTER TABLE agent_samples ADD COLUMN attribution_age_seconds DOUBLE;
ALTER TABLE agent_samples ADD COLUMN paused BOOLEAN;
ALTER TABLE agent_samples ADD COLUMN dropped_rows BIGINT;

ALTER TABLE inventory ADD COLUMN architecture VARCHAR;
ALTER TABLE inventory ADD COLUMN agent_version VARCHAR;
