-- Batches that are answered and not yet sealed into the lake, as they came. Where there is no lake this stays empty.
CREATE TABLE arrivals (
    batch BIGINT PRIMARY KEY,
    body BLOB NOT NULL
);
