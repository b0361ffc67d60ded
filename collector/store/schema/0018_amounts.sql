-- What work was done, what was drawn and what was moved in each UTC hour: facts of the period as the ledger is, booked beside it,
-- closed with it, and kept when the samples have expired. An amount belongs to the hour in which its interval began; bytes
-- are cut at the edges of hours and of runs. Null is not reported, and never 0.

-- One row a booked hour: what each amount was made from, samples or tiers; null where nothing was kept of it.
CREATE TABLE amount_hours (
    hour BIGINT PRIMARY KEY,
    booked_batch BIGINT NOT NULL,  -- the newest receipt as of when it was booked
    served VARCHAR,                -- requests and tokens of services
    latency VARCHAR,               -- their promises and times to the first token
    progress VARCHAR,              -- what runs said of themselves
    energy VARCHAR,
    activity VARCHAR,
    traffic VARCHAR
);

-- What each replica's host counted for a run.
CREATE TABLE served_amounts (
    hour BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    requests BIGINT,
    tokens_in BIGINT,
    tokens_out BIGINT,
    answered_at BIGINT,            -- end of the first interval with a completed request since the run began
    promised_us BIGINT,            -- time in which a promise and a latency were reported
    kept_us BIGINT                 -- of it, time in which the latency kept the promise
);

-- How often a run's P99 of the time to the first token had a value: integers of three digits, so that quantiles outlive samples.
CREATE TABLE latency_amounts (
    hour BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    engine VARCHAR,
    slo_micros BIGINT,
    first_token_micros BIGINT,
    intervals BIGINT NOT NULL
);

-- What a run said of itself from one host.
CREATE TABLE progress_amounts (
    hour BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    steps BIGINT,
    samples BIGINT,
    tokens BIGINT,
    first_at BIGINT NOT NULL,
    told_us BIGINT NOT NULL,
    counted_from BIGINT,           -- of the intervals that count something: the first, the last
    counted_until BIGINT,
    counted_us BIGINT,             -- of told_us what had ended by then
    checkpoints BIGINT[]           -- ends of the intervals that named a checkpoint
);

-- How active a GPU was, of a partitioned one its instances together: whether it worked where nobody told who held it.
CREATE TABLE activity_amounts (
    hour BIGINT NOT NULL,
    node VARCHAR NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    measured_ms BIGINT NOT NULL,
    active_permille_ms BIGINT NOT NULL  -- activity in thousandths, times milliseconds
);

-- What a GPU drew; of a MIG instance its GPU alone tells.
CREATE TABLE energy_amounts (
    hour BIGINT NOT NULL,
    node VARCHAR NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    millijoules BIGINT NOT NULL,
    measured_ms BIGINT NOT NULL
);

-- What the hosts of a run moved while it was there.
CREATE TABLE traffic_amounts (
    hour BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,         -- link (of its hosts), flow (by peer), gpu_link (NVLink)
    node VARCHAR,
    attempt BIGINT,
    is_shared BOOLEAN,             -- of links: another run was on the host
    is_fabric BOOLEAN,             -- RDMA, not Ethernet
    is_own BOOLEAN,                -- of flows: of this run, not of another on the host
    peer VARCHAR,
    receive_bytes BIGINT,
    transmit_bytes BIGINT
);

-- What was learned of an hour's amounts after it had closed: the difference, dated when it was learned.
CREATE TABLE amount_corrections (
    recorded_at BIGINT NOT NULL,
    hour BIGINT NOT NULL,
    subject VARCHAR NOT NULL,      -- a run, or a GPU
    unit VARCHAR NOT NULL,         -- requests, tokens_out, steps, millijoules, ...
    amount BIGINT NOT NULL
);
