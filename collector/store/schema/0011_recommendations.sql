-- What was recommended, as it was predicted when it was first made of a period. Rows are added and never changed: what is
-- predicted of a later period, or of the same once more is known, is a row of its own.
CREATE TABLE recommendation_predictions (
    prediction_id VARCHAR PRIMARY KEY,  -- the recommendation and the period: two analyzers write the same row
    recommendation_id VARCHAR NOT NULL,
    made_at BIGINT NOT NULL,
    period_start BIGINT NOT NULL,
    period_end BIGINT NOT NULL,         -- as far as the ledger was known then
    period_label VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    subject VARCHAR NOT NULL,
    team VARCHAR,
    title VARCHAR NOT NULL,
    finding_ids VARCHAR NOT NULL,       -- JSON lists
    run_ids VARCHAR NOT NULL,
    nodes VARCHAR NOT NULL,             -- of the GPUs that caused it, where it is known
    saves_ms VARCHAR NOT NULL,          -- a JSON object: GPU milliseconds a week by quantile: p5 (if told), p20, p50, ...
    saves_micros VARCHAR,               -- the same in money; null where no price was known
    lost_ms BIGINT,                     -- in the period, by the findings that it stands on
    lost_micros BIGINT,
    held_ms BIGINT,                     -- in the period, by the runs that it is about, in all
    held_micros BIGINT,
    shares_version VARCHAR NOT NULL,    -- of the shares by which a loss becomes a saving
    rules_version VARCHAR,
    price_version VARCHAR
);

-- What was done about the book, once each: "week N" was written down, on "day N" was looked at what was applied; N is
-- the first microsecond.
CREATE TABLE recommendation_turns (
    turn VARCHAR PRIMARY KEY,
    made_at BIGINT NOT NULL
);

-- Changes that were seen to have been made: by what runs were given and hosts said, when it was still there to be seen.
CREATE TABLE recommendation_applied (
    recommendation_id VARCHAR PRIMARY KEY,
    applied_at BIGINT NOT NULL,         -- when the first run began that shows it
    by_run VARCHAR NOT NULL,            -- that run, or the host
    seen VARCHAR NOT NULL,              -- in words: "its hosts are in 1 rack, not 2"
    made_at BIGINT NOT NULL
);

-- What people decided. Rows are added and never changed: the last word on a recommendation counts.
CREATE TABLE recommendation_words (
    word_id VARCHAR PRIMARY KEY,
    recommendation_id VARCHAR NOT NULL,
    prediction_id VARCHAR NOT NULL,     -- what it said when it was decided
    word VARCHAR NOT NULL,              -- accepted or rejected
    because VARCHAR,                    -- a rejection always has one
    applied_at BIGINT,                  -- when the change was made, where somebody said so
    who VARCHAR NOT NULL,               -- a key's id, or cli: and the user of the machine
    recorded_at BIGINT NOT NULL,
    team VARCHAR
);
