-- The runs that hosts mean by other names, and an integer by its three leading digits.
CREATE OR REPLACE TEMP TABLE amount_names AS
SELECT alias_run_id AS alias, run_id, from_us, until_us FROM other_names;

CREATE OR REPLACE TEMP MACRO amount_unit(whole) AS (10 ** greatest(length(whole::VARCHAR) - 3, 0))::BIGINT;

CREATE OR REPLACE TEMP MACRO amount_digits(whole) AS (whole + amount_unit(whole) // 2) // amount_unit(whole)
    * amount_unit(whole);
