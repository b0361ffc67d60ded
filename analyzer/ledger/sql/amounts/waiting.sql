-- The hours of the ledger that are due, or of which no pass has booked amounts, oldest first; and whether they keep
-- what they have.
SELECT hour, hour IN (SELECT hour FROM amount_shut) FROM ledger_hours
WHERE hour IN (SELECT hour FROM amount_due) OR hour NOT IN (SELECT hour FROM amount_hours) ORDER BY hour
