-- What was avoidable, by UTC day: of a run, or of a host that nobody held. Made from the ledger whenever its day changes,
-- so that the book below is never counted up, only ever made of these.
CREATE TABLE finding_days (
    day BIGINT NOT NULL,           -- its first microsecond
    run_id VARCHAR,
    node VARCHAR,                  -- only where no run held
    state VARCHAR NOT NULL,
    cause VARCHAR NOT NULL,        -- of unexplained: the suspicion
    hours BIGINT NOT NULL,         -- a bit for each hour of the day in which it was seen, the first hour's is 1
    milliseconds BIGINT NOT NULL,
    cost_micros BIGINT,
    high_ms BIGINT NOT NULL,       -- of them booked with high confidence
    medium_ms BIGINT NOT NULL
);

-- Of which state of the ledger each of those days was made.
CREATE TABLE finding_days_made (
    day BIGINT PRIMARY KEY,
    digest VARCHAR NOT NULL
);

-- The findings over time: one row for each time that one was opened. Derived, like the ledger.
CREATE TABLE finding_book (
    finding_id VARCHAR NOT NULL,
    spell BIGINT NOT NULL,         -- 1, and one more each time that it is opened again
    subject VARCHAR NOT NULL,
    team VARCHAR,
    state VARCHAR NOT NULL,
    cause VARCHAR NOT NULL,
    opened_at BIGINT NOT NULL,     -- the first hour in which it was seen
    updated_at BIGINT NOT NULL,    -- the end of the last
    closed_at BIGINT,              -- null while it is open
    hours BIGINT NOT NULL,         -- in which it was seen
    milliseconds BIGINT NOT NULL,
    cost_micros BIGINT,
    confidence VARCHAR NOT NULL,
    rules_version VARCHAR NOT NULL, -- by which its last hour was judged
    PRIMARY KEY (finding_id, spell)
);

-- What people said of findings. Rows are added and never changed: the last word on a finding and a period counts. What
-- was claimed then is kept with it, so that a later analysis does not change what was judged.
CREATE TABLE finding_judgements (
    judgement_id VARCHAR PRIMARY KEY,
    finding_id VARCHAR NOT NULL,
    period_start BIGINT NOT NULL,
    period_end BIGINT NOT NULL,
    period_label VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL,      -- right, wrong or planned
    because VARCHAR NOT NULL,
    who VARCHAR NOT NULL,          -- a key's id, or cli: and the user of the machine
    recorded_at BIGINT NOT NULL,
    subject VARCHAR NOT NULL,
    team VARCHAR,
    state VARCHAR NOT NULL,
    cause VARCHAR NOT NULL,
    confidence VARCHAR NOT NULL,
    milliseconds BIGINT NOT NULL,
    cost_micros BIGINT,
    rules_version VARCHAR NOT NULL
);

-- Findings that somebody does not want to see for a while. Their time stays in the ledger and in every sum.
CREATE TABLE finding_mutes (
    mute_id VARCHAR PRIMARY KEY,
    finding_id VARCHAR NOT NULL,
    until BIGINT NOT NULL,         -- a moment that has passed ends it; the last word counts
    because VARCHAR NOT NULL,
    who VARCHAR NOT NULL,
    recorded_at BIGINT NOT NULL,
    team VARCHAR
);
