ALTER TABLE service_samples ADD COLUMN model VARCHAR;
