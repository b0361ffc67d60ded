-- What each GPU drew in each hour, in whole millijoules, and for how long that is known, as it was booked. With $run it
-- is of
-- the GPUs alone that this run held at any time.
CREATE OR REPLACE TEMP TABLE pricing_drawn AS
SELECT hour, node, gpu_uuid, millijoules::HUGEINT AS millijoules, measured_ms AS ms FROM energy_amounts
WHERE hour >= $start AND hour < $end
    AND ($run IS NULL OR gpu_uuid IN (SELECT gpu_uuid FROM ledger WHERE run_id = $run AND hour >= $start
        AND hour < $end))
