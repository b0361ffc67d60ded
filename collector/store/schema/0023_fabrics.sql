-- What a fabric gives inside a rack is learned by kind of GPU and of ports: fleets are mixed. Both tables are made anew by the
-- next pass, whose rules are others.
DROP TABLE in_rack_rates;

CREATE TABLE in_rack_rates (
    run_id VARCHAR NOT NULL,
    window_start BIGINT NOT NULL,
    fabric VARCHAR NOT NULL,          -- kind of GPU, and what the ports of a host carry together, GB/s
    bytes_per_second BIGINT NOT NULL, -- of one host
    PRIMARY KEY (run_id, window_start)
);

DROP TABLE fabric_rates;

CREATE TABLE fabric_rates (
    hour BIGINT NOT NULL,
    fabric VARCHAR NOT NULL,
    bytes_per_second BIGINT,          -- of one host; null where none had been seen
    PRIMARY KEY (hour, fabric)
);
