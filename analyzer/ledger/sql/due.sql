-- Which hours of which GPUs must be booked anew: what is touched, and whole hours.

-- Hours that are booked anew whole: those judged by other rules or prices, those that had not ended,
-- and owned hours that no pass has reached: between the last sample and the next, nothing arrives that could touch
-- them.
CREATE OR REPLACE TEMP TABLE whole AS
SELECT hour // 1000 AS hour_ms FROM ledger_hours WHERE rules_version <> $rules OR price_version IS DISTINCT FROM $prices
UNION
SELECT hour // 1000 FROM ledger_hours CROSS JOIN known
WHERE status = 'provisional' AND hour + 3600000000 > coalesce((SELECT until_us FROM analysed_until), 0)
    AND (EXISTS (SELECT 1 FROM marks) OR known.until_us > coalesce((SELECT until_us FROM analysed_until), 0))
UNION
SELECT DISTINCT hour_ms FROM (
    SELECT unnest(range(greatest(o.from_ms, k.from_us // 86400000000 * 86400000) // 3600000 * 3600000, o.until_ms,
        3600000)) AS hour_ms
    FROM (SELECT DISTINCT from_ms, until_ms FROM owned) o CROSS JOIN known k)
WHERE hour_ms * 1000 NOT IN (SELECT hour FROM ledger_hours);

CREATE OR REPLACE TEMP TABLE due AS
WITH spans AS (
    SELECT gid, greatest(first_hour, (SELECT from_us // 3600000000 FROM known)) AS first_hour,
        least(last_hour, (SELECT (until_us - 1) // 3600000000 FROM known)) AS last_hour FROM touched
), hourly AS (
    SELECT DISTINCT gid, unnest(range(first_hour, last_hour + 1)) * 3600000 AS hour_ms FROM spans
        WHERE last_hour >= first_hour
)
SELECT gid, hour_ms FROM hourly
UNION SELECT gid, hour_ms FROM whole CROSS JOIN (SELECT DISTINCT gid FROM gpus)
