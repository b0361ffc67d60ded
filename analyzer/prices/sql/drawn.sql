-- What each GPU drew in each hour for whom, in whole millijoules, for how long that is known, and for how much of that
-- by its power, as it was booked. With $run it is what that run drew alone.
CREATE OR REPLACE TEMP TABLE pricing_drawn AS
SELECT hour, node, gpu_uuid, run_id, millijoules::HUGEINT AS millijoules, measured_ms AS ms,
    coalesce(power_ms, 0) AS power_ms
FROM energy_amounts WHERE hour >= $start AND hour < $end AND ($run IS NULL OR run_id = $run)
