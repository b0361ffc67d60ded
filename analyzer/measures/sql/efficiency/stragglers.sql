-- GPU time that ranks waited for a slow one in [$start, $end): of one run where $run names it, else of all.
WITH slow AS (
    SELECT caused_by, run_id, sum(milliseconds)::BIGINT AS ms,
        CASE WHEN count(*) FILTER (cost_micros IS NULL) = 0 THEN sum(cost_micros)::BIGINT END AS micros
    FROM ledger
    WHERE hour >= $start AND hour < $end AND state = 'communicating' AND cause = 'straggler' AND run_id IS NOT NULL
        AND ($run::VARCHAR IS NULL OR run_id = $run)
    GROUP BY ALL
)
SELECT caused_by, (SELECT max(l.node) FROM ledger l WHERE l.gpu_uuid = slow.caused_by AND l.hour >= $start
    AND l.hour < $end) AS node, run_id, ms, micros
FROM slow ORDER BY ALL
