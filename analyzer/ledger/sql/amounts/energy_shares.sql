-- Who held each GPU in each hour, and for which part of what it drew: of one holder all.
CREATE OR REPLACE TEMP TABLE energy_shares AS
SELECT hour, gpu_uuid, run_id, ms, sum(ms) OVER (PARTITION BY hour, gpu_uuid) AS whole_ms,
    sum(ms) OVER (PARTITION BY hour, gpu_uuid ORDER BY run_id NULLS FIRST ROWS UNBOUNDED PRECEDING) AS upto
FROM (
    SELECT hour, gpu_uuid, run_id, sum(milliseconds)::HUGEINT AS ms FROM ledger
    WHERE hour >= $from_us AND hour < $until_us GROUP BY ALL
);

CREATE OR REPLACE TEMP MACRO energy_part(amount, upto, ms, whole_ms) AS
    coalesce(amount * upto // whole_ms - amount * (upto - ms) // whole_ms, amount)
