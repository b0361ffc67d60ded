-- The same table, empty, where no sample is fine enough to show a dip.
CREATE OR REPLACE TEMP TABLE dips AS
SELECT uid, k AS first_k, k AS last_k, from_ms, until_ms, 0 AS still, false AS refilled FROM ordered LIMIT 0
