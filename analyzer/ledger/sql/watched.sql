-- Failed runs of which a checkpoint could have been seen on this day: what their hosts wrote to disk is known.
INSERT INTO watched SELECT DISTINCT rid FROM node_minutes JOIN node_written USING (nid, minute_ms);

-- What the run itself wrote in bursts, without a dip: a save of seconds, or one beside the training. What may have been
-- saved is
-- not called lost. What its host wrote is not asked: that may have been another run's.
INSERT INTO written_in
WITH minutes AS (
    SELECT k.rid, s.started_at // 60000000 * 60000 AS minute_ms, s.started_at // 3600000000 AS hour,
        amount(sum(s.written_bytes)) AS written
    FROM run_samples s JOIN run_names k ON k.run_id = s.run_id AND s.started_at >= k.from_us
        AND s.started_at < k.until_us
    WHERE s.started_at >= $from_us AND s.started_at < $until_us AND s.written_bytes IS NOT NULL
        AND k.rid IN (SELECT rid FROM failed) GROUP BY ALL
), usual AS (
    SELECT rid, hour, quantile_disc(written, 0.25) AS written FROM minutes GROUP BY ALL
), gpus AS (
    SELECT rid, minute_ms, sum(ms) AS gpu_ms FROM node_minutes GROUP BY ALL
)
SELECT m.rid, m.minute_ms, m.written * 60000 < $checkpoint_bytes_per_gpu * g.gpu_ms
FROM minutes m JOIN usual u USING (rid, hour) JOIN gpus g USING (rid, minute_ms)
WHERE m.written >= 3 * u.written AND m.written >= $small_state_bytes;

-- What a host of theirs wrote in a minute, on average: a small state may be in it, whoever wrote it.
INSERT INTO written_since
SELECT m.rid, m.minute_ms, avg(w.written)::BIGINT FROM (SELECT DISTINCT rid, nid, minute_ms FROM node_minutes) m
JOIN node_written w USING (nid, minute_ms) GROUP BY ALL
