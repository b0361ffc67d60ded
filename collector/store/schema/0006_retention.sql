-- From when on a table still has its rows, each time that some were dropped: the highest counts. In a store with a lake
-- it is the lake's tables of these names that count, since they commit with what was dropped.
CREATE TABLE retention (
    table_name VARCHAR NOT NULL,
    kept_from BIGINT NOT NULL,
    dropped_rows BIGINT NOT NULL,
    reason VARCHAR NOT NULL,       -- age or bytes
    recorded_at BIGINT NOT NULL
);

-- When and where each GPU was seen in samples that are gone: where nobody declares what is owned, this does.
CREATE TABLE gpus_seen (
    gpu_uuid VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    parent_uuid VARCHAR,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL
);

-- Which runs were seen to serve in samples that are gone: it says what kind of run they were.
CREATE TABLE services_seen (
    run_id VARCHAR NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL
);
