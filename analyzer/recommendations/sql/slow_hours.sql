-- What slow GPUs cost these runs in [$start, $end), by hour and host: what their clocks lost by cause, at most on one
-- GPU and in all, what the
-- clocks lost of work that was thrown away later, and what all ranks waited for them. `gpus` are those that the run
-- held: its GPU time over that
-- of the GPU that it held longest.
WITH own AS (
    SELECT run_id, hour, node, gpu_uuid, state, cause, would_be, caused_by, sum(milliseconds)::BIGINT AS ms FROM ledger
    WHERE hour >= $start AND hour < $end AND list_contains($runs::VARCHAR[], run_id) GROUP BY ALL
), held AS (
    SELECT run_id, hour, gpu_uuid, max(node) AS node, sum(ms)::BIGINT AS ms FROM own GROUP BY run_id, hour, gpu_uuid
), ranks AS (
    SELECT run_id, hour, sum(ms)::BIGINT // max(ms) AS gpus FROM held GROUP BY run_id, hour
), clocks AS (
    SELECT run_id, hour, node, gpu_uuid, state, if(state = 'lost_work', would_be, cause) AS cause, sum(ms)::BIGINT AS ms
        FROM own
    WHERE state = 'throttled' OR state = 'lost_work' AND would_be = 'throttled' GROUP BY ALL
), slow AS (
    SELECT run_id, hour, node, state, cause, max(ms) AS longest_ms, sum(ms)::BIGINT AS ms FROM clocks GROUP BY ALL
    UNION ALL
    SELECT o.run_id, o.hour, h.node, o.state, o.cause, 0, sum(o.ms)::BIGINT FROM own o
    JOIN held h ON h.run_id = o.run_id AND h.hour = o.hour AND h.gpu_uuid = o.caused_by
    WHERE o.state = 'communicating' AND o.cause = 'straggler' GROUP BY ALL
)
SELECT s.run_id, s.hour, s.node, s.state, s.cause, r.gpus::BIGINT, s.longest_ms, s.ms FROM slow s
    JOIN ranks r USING (run_id, hour) ORDER BY ALL;
