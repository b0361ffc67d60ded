-- Where the hosts of an hour stood when it closed for finance, and what they had: beside the GPUs their costs are by this. Hours that
-- closed before a release that knows this table have no rows here, and are told as the inventory says for that hour.
CREATE TABLE closed_nodes (
    hour BIGINT NOT NULL,
    node VARCHAR NOT NULL,
    node_group VARCHAR,
    rack VARCHAR,
    block VARCHAR,
    zone VARCHAR,
    region VARCHAR,
    cpu_cores BIGINT,
    host_memory_bytes BIGINT
);

-- The rates of energy, storage, checkpoints, hosts and traffic by which hours closed, each version once.
CREATE TABLE closed_rates (
    rates_version VARCHAR NOT NULL,
    content VARCHAR NOT NULL       -- JSON
);

ALTER TABLE closed_hours ADD COLUMN rates_version VARCHAR;

-- Whether the charge rates were edited before this correction, and it is not for moved time alone.
ALTER TABLE charge_corrections ADD COLUMN is_of_rates BOOLEAN;
