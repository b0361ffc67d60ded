-- When and where each GPU was seen in samples, and which runs were seen to serve, as of the last pass of the analyzer:
-- so that no pass reads what an earlier one has read.
CREATE TABLE gpus_sighted (
    gpu_uuid VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    parent_uuid VARCHAR,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL
);

CREATE TABLE services_sighted (
    run_id VARCHAR NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL
);

-- By what exchange inside a rack each hour's exchanges across racks were judged: where it changes, they are judged anew.
CREATE TABLE fabric_rates (
    hour BIGINT PRIMARY KEY,
    bytes_per_second BIGINT        -- of one host; null where none had been seen
);

-- Up to when anything was known as of the last pass: hours that ended before it had been booked whole.
CREATE TABLE analysed_until (
    until_us BIGINT NOT NULL
);

-- What earlier passes read is not known here: the next reads all.
DELETE FROM analysis;
