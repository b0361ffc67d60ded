-- What finance was told of an hour once its month was final, and keeps: whose its runs were and what was charged. What is
-- edited later (the teams file, charge rates) or learned of a run becomes corrections, dated when they were made.

-- One row an hour whose terms are closed. Hours that an earlier release made final are closed by the first pass that knows this table.
CREATE TABLE closed_hours (
    hour BIGINT NOT NULL,
    closed_at BIGINT NOT NULL,
    adjustments BIGINT NOT NULL    -- rows of it in adjustments for which charge_corrections were made
);

-- What was known of each run that held in a closed hour, as it was when the hour closed.
CREATE TABLE closed_runs (
    hour BIGINT NOT NULL,
    run_id VARCHAR NOT NULL,
    name VARCHAR,
    team VARCHAR,
    cost_centre VARCHAR,
    project VARCHAR,
    queue VARCHAR,
    stage VARCHAR,
    model VARCHAR
);

-- What is charged for a closed hour where a charge rate held; of all else in it the charge is the cost.
CREATE TABLE closed_charges (
    hour BIGINT NOT NULL,
    team VARCHAR,
    cost_centre VARCHAR,
    sku VARCHAR,
    purchase_option VARCHAR,
    charged_micros BIGINT NOT NULL
);

-- By how much more is charged for a closed hour than its closed charge and earlier corrections: of what its adjustments moved,
-- and of charge rates that were edited.
CREATE TABLE charge_corrections (
    recorded_at BIGINT NOT NULL,
    hour BIGINT NOT NULL,
    team VARCHAR,
    cost_centre VARCHAR,
    sku VARCHAR,
    purchase_option VARCHAR,
    charged_micros BIGINT NOT NULL
);

-- By what the corrections up to now were made; one row.
CREATE TABLE terms_applied (
    terms_version VARCHAR NOT NULL, -- of the teams file and the charge rates
    runs_digest VARCHAR NOT NULL    -- of whose the runs of closed hours are now
);

-- An adjustment that moves time from one team, cost centre or project to another names whose it is; others are whose the hour's run is.
ALTER TABLE adjustments ADD COLUMN is_moved BOOLEAN;
ALTER TABLE adjustments ADD COLUMN moved_team VARCHAR;
ALTER TABLE adjustments ADD COLUMN moved_cost_centre VARCHAR;
ALTER TABLE adjustments ADD COLUMN moved_project VARCHAR;
