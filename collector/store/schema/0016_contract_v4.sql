ALTER TABLE gpu_samples ADD COLUMN xid_numbers VARCHAR;

ALTER TABLE flow_samples ADD COLUMN told_by VARCHAR;

ALTER TABLE process_samples ADD COLUMN told_by VARCHAR;

ALTER TABLE run_samples ADD COLUMN told_by VARCHAR;

ALTER TABLE service_samples ADD COLUMN told_by VARCHAR;

ALTER TABLE progress ADD COLUMN told_by VARCHAR;

ALTER TABLE allocations ADD COLUMN told_by VARCHAR;

ALTER TABLE run_aliases ADD COLUMN told_by VARCHAR;
