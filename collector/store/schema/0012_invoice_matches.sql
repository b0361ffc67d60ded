-- What came of holding an invoice against the ledger. Rows are added and never changed: of a period the last one counts.
CREATE TABLE invoice_matches (
    match_id VARCHAR PRIMARY KEY,
    recorded_at BIGINT NOT NULL,
    who VARCHAR NOT NULL,               -- cli: and the user of the machine
    period_start BIGINT NOT NULL,
    period_end BIGINT NOT NULL,
    period_label VARCHAR NOT NULL,
    invoice VARCHAR NOT NULL,           -- the file's name
    invoice_digest VARCHAR NOT NULL,    -- of its content
    currency VARCHAR NOT NULL,
    ledger_micros BIGINT NOT NULL,      -- of what could be compared
    invoice_micros BIGINT NOT NULL,
    apart_micros BIGINT NOT NULL,       -- the differences of GPU kinds and days, each without its sign
    apart_permille BIGINT,              -- of the invoice, rounded up; null where nothing could be compared
    matched BOOLEAN NOT NULL,
    other_nanos BIGINT NOT NULL         -- lines that are about no GPU that is known, in billionths
);
