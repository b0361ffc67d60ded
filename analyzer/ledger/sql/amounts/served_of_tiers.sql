-- Of hours whose samples are gone the tier has the sums; how a promise was kept it does not say.
CREATE OR REPLACE TEMP TABLE served_new AS
SELECT s.started_at AS hour, coalesce(k.run_id, s.run_id) AS run_id, s.node, amount(sum(s.requests)) AS requests,
    amount(sum(s.requests_failed)) AS requests_failed, amount(sum(s.tokens_in)) AS tokens_in,
    amount(sum(s.tokens_cached)) AS tokens_cached, amount(sum(s.tokens_out)) AS tokens_out, NULL::BIGINT AS answered_at,
    NULL::BIGINT AS promised_us, NULL::BIGINT AS kept_us, NULL::BIGINT AS undecided_us
FROM service_hours s LEFT JOIN amount_names k ON k.alias = s.run_id AND s.started_at >= k.from_us
    AND s.started_at < k.until_us
WHERE s.started_at >= $from_us AND s.started_at < $until_us GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE latency_new AS FROM latency_amounts LIMIT 0
