ALTER TABLE gpu_samples ADD COLUMN xid_numbers VARCHAR;
