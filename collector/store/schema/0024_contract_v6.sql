ALTER TABLE service_samples ADD COLUMN state VARCHAR;
ALTER TABLE service_samples ADD COLUMN first_token_seconds_p99_low DOUBLE;
ALTER TABLE service_samples ADD COLUMN first_token_seconds_p99_high DOUBLE;
