-- What crossing racks cost where no tariff does: GPU time that the ledger booked to it.
SELECT run_id, sum(milliseconds)::BIGINT AS milliseconds, sum(cost_micros)::HUGEINT AS cost_micros
FROM ledger WHERE list_contains($runs, run_id) AND hour >= $from_us AND hour < $until_us
    AND state = 'communicating' AND cause = 'cross_rack'
GROUP BY ALL ORDER BY ALL
