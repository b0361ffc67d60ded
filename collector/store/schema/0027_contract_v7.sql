ALTER TABLE service_samples ADD COLUMN requests_failed BIGINT;
ALTER TABLE service_samples ADD COLUMN tokens_cached BIGINT;
ALTER TABLE service_samples ADD COLUMN inter_token_seconds_p50 DOUBLE;
ALTER TABLE service_samples ADD COLUMN inter_token_seconds_p99 DOUBLE;
ALTER TABLE service_samples ADD COLUMN inter_token_seconds_p99_low DOUBLE;
ALTER TABLE service_samples ADD COLUMN inter_token_seconds_p99_high DOUBLE;

-- What the ledger books of them: of each kind the amounts of an hour, and how often the P99 between tokens had a value.
ALTER TABLE served_amounts ADD COLUMN requests_failed BIGINT;
ALTER TABLE served_amounts ADD COLUMN tokens_cached BIGINT;  -- of tokens_in

ALTER TABLE latency_amounts ADD COLUMN inter_token_micros BIGINT;
