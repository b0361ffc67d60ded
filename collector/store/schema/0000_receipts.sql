-- Which migrations this store has, and which batches it has taken.
CREATE TABLE migrations (number BIGINT PRIMARY KEY, file VARCHAR NOT NULL);

-- A batch is known by its stream, its sequence and the hash of its body: twice delivered counts once.
CREATE TABLE receipts (
    batch BIGINT PRIMARY KEY,          -- monotone in this store; every row carries the batch that brought it
    agent VARCHAR NOT NULL,            -- or import:<file>
    stream VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    body_hash VARCHAR NOT NULL,        -- sha256 of the compressed body
    sent_at BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    schema_version BIGINT NOT NULL,
    row_count BIGINT NOT NULL,
    UNIQUE (stream, sequence)
);
