-- Rows of batches that could not be true, and why; the oldest go first. What they say has no names in it.
CREATE TABLE quarantine (
    batch BIGINT NOT NULL,       -- the receipt that they came with
    received_at BIGINT NOT NULL, -- microseconds UTC, by our clock
    agent VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    column_name VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,     -- a sentence
    content VARCHAR NOT NULL     -- the row as JSON, without nulls
);
