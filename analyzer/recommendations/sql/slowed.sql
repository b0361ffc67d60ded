-- What each GPU of a run lost of its clock, for whatever reason, in work that was thrown away later as well.
SELECT run_id, gpu_uuid, sum(milliseconds)::BIGINT FROM ledger
WHERE hour >= $start AND hour < $end AND run_id IS NOT NULL AND (state = 'throttled' OR would_be = 'throttled')
GROUP BY ALL
