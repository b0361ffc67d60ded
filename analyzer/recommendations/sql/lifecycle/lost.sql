-- What the findings of a recommendation ($findings) lose between two moments: of the ledger, as the book names them.
WITH meant AS (
    SELECT DISTINCT subject, team, state, cause FROM finding_book WHERE list_contains($findings::VARCHAR[], finding_id)
), lost AS (
    SELECT coalesce(r.name, l.run_id, l.node) AS subject, r.team, l.state, l.cause, l.milliseconds, l.cost_micros
    FROM ledger l LEFT JOIN runs r USING (run_id) WHERE l.hour >= $from AND l.hour < $until
)
SELECT coalesce(sum(l.milliseconds), 0)::BIGINT, coalesce(sum(l.cost_micros), 0)::BIGINT, (SELECT count(*) FROM meant)
FROM lost l JOIN meant m ON l.subject = m.subject AND l.team IS NOT DISTINCT FROM m.team AND l.state = m.state
    AND l.cause = m.cause;
