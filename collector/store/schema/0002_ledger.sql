-- What the analyzer writes. Times are integer microseconds UTC; `hour` is the first microsecond of a UTC hour.

-- The ledger: GPU x hour x holder x state x cause. Milliseconds and millionths are integers and conserve (DESIGN, 1).
CREATE TABLE ledger (
    hour BIGINT NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    sku VARCHAR,
    purchase_option VARCHAR,
    run_id VARCHAR,                -- the holder; null where nobody holds
    attempt BIGINT,
    state VARCHAR NOT NULL,
    cause VARCHAR,
    would_be VARCHAR,              -- of lost_work: the state that it would otherwise be
    caused_by VARCHAR,             -- the GPU, node or run that is the root of it
    suspicion VARCHAR,             -- of unexplained: the cause that lacked evidence
    confidence VARCHAR,
    shared BOOLEAN NOT NULL,       -- the driver could not tell the sharers apart
    milliseconds BIGINT NOT NULL,
    cost_micros BIGINT,            -- millionths of the ledger's currency; null where no price is known
    rules_version VARCHAR NOT NULL,
    price_version VARCHAR
);

-- One row an analysed hour: what it was judged by, and whether it may still change.
CREATE TABLE ledger_hours (
    hour BIGINT PRIMARY KEY,
    status VARCHAR NOT NULL,       -- provisional, open, closed or final
    input_digest VARCHAR NOT NULL, -- of what the hour was made from: rules, prices, and the receipt up to which
    rules_version VARCHAR NOT NULL,
    price_version VARCHAR
);

-- What was learned after an hour closed: the difference, dated when it was learned. Sums to 0 ms per GPU and hour.
CREATE TABLE adjustments (
    recorded_at BIGINT NOT NULL,
    hour BIGINT NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    sku VARCHAR,
    purchase_option VARCHAR,
    run_id VARCHAR,
    attempt BIGINT,
    state VARCHAR NOT NULL,
    cause VARCHAR,
    would_be VARCHAR,
    caused_by VARCHAR,
    suspicion VARCHAR,
    confidence VARCHAR,
    shared BOOLEAN NOT NULL,
    milliseconds BIGINT NOT NULL,
    cost_micros BIGINT,
    reason VARCHAR NOT NULL,
    rules_version VARCHAR NOT NULL, -- by which it is judged now
    price_version VARCHAR
);

-- What is known of a run across its GPUs: one row a run, from its allocations and what was seen of it.
CREATE TABLE runs (
    run_id VARCHAR PRIMARY KEY,
    name VARCHAR,
    team VARCHAR,                  -- null is "unmapped", a row that people see
    cost_centre VARCHAR,
    project VARCHAR,
    queue VARCHAR,
    stage VARCHAR,                 -- stages.py
    exit_status VARCHAR,           -- null while it runs or where nobody says
    submitted_at BIGINT,
    started_at BIGINT,
    ended_at BIGINT,               -- null while it runs
    gpus BIGINT NOT NULL,
    nodes BIGINT NOT NULL,
    racks BIGINT,                  -- null where one of its nodes has no known rack
    sku VARCHAR,
    attempts BIGINT NOT NULL
);

-- How busy a run's GPUs were, as a histogram of integers: exact, mergeable, and the run's own yardstick (DESIGN, 7).
CREATE TABLE run_activity (
    run_id VARCHAR NOT NULL,
    hour BIGINT NOT NULL,
    permille BIGINT NOT NULL,      -- SM activity where it is measured, else NVML utilization
    milliseconds BIGINT NOT NULL,
    PRIMARY KEY (run_id, hour, permille)
);

-- When each GPU of a run first worked; no row while it has not.
CREATE TABLE run_gpus (
    run_id VARCHAR NOT NULL,
    attempt BIGINT NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    first_active_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, attempt, gpu_uuid)
);

-- Minutes in which a run was seen to write a checkpoint.
CREATE TABLE checkpoints (
    run_id VARCHAR NOT NULL,
    minute BIGINT NOT NULL,        -- its first microsecond
    written_bytes BIGINT NOT NULL, -- by all hosts of the run
    PRIMARY KEY (run_id, minute)
);

-- One row a run and ten minutes: what was counted (SQL) and what was judged of it (detectors).
CREATE TABLE run_windows (
    run_id VARCHAR NOT NULL,
    window_start BIGINT NOT NULL,
    counts VARCHAR NOT NULL,       -- JSON of analyzer.ledger.windows.RunWindow
    verdict VARCHAR NOT NULL,      -- JSON of analyzer.ledger.windows.Verdict
    PRIMARY KEY (run_id, window_start)
);

-- Where each run's GPU time went, bucket by bucket, for the eye: not scaled to shares, and no part of the ledger.
CREATE TABLE run_timeline (
    run_id VARCHAR NOT NULL,
    bucket_start BIGINT NOT NULL,
    state VARCHAR NOT NULL,
    cause VARCHAR,
    milliseconds BIGINT NOT NULL
);

-- What exchanges between hosts of one rack were seen to reach: the yardstick of those that cross racks.
CREATE TABLE in_rack_rates (
    run_id VARCHAR NOT NULL,
    window_start BIGINT NOT NULL,
    bytes_per_second BIGINT NOT NULL, -- of one host
    PRIMARY KEY (run_id, window_start)
);

-- Rules that could not be judged, and why (DESIGN, 9).
CREATE TABLE not_evaluated (
    hour BIGINT NOT NULL,
    subject VARCHAR NOT NULL,      -- a run_id or a node
    rule VARCHAR NOT NULL,
    missing VARCHAR NOT NULL,
    PRIMARY KEY (hour, subject, rule)
);

-- Up to which receipt the ledger has been made.
CREATE TABLE analysis (
    analysed_batch BIGINT NOT NULL,
    analysed_at BIGINT NOT NULL
);
