-- A checkpoint is a dip of all ranks with a burst from the GPUs and a burst to storage (reference: algorithms 1.2).
-- Reads node_minutes (rid, nid, minute_ms, ms, activity, out_kb) over [$from_us, $until_us).

-- only with disk_samples
CREATE OR REPLACE TEMP TABLE node_written AS
SELECT n.nid, d.started_at // 60000000 * 60000 AS minute_ms, amount(sum(d.written_bytes)) AS written,
    CASE WHEN count(d.mount_kind) > 0
        THEN amount(coalesce(sum(d.written_bytes) FILTER (d.mount_kind <> 'block'), 0)) END AS network
FROM disk_samples d JOIN nodes n USING (node)
WHERE d.started_at >= $from_us AND d.started_at < $until_us AND d.written_bytes IS NOT NULL
    AND n.nid IN (SELECT nid FROM node_minutes) GROUP BY ALL;

-- only with checkpoints
DELETE FROM checkpoints
WHERE minute >= $from_us AND minute < $until_us AND (run_id, minute // 3600000000) IN (
    SELECT (run_id, minute_ms // 3600000) FROM run_keys JOIN node_minutes USING (rid));

-- only with node_written
INSERT INTO checkpoints BY NAME
WITH minutes AS (
    SELECT m.rid, m.minute_ms, m.minute_ms // 3600000 AS hour, sum(m.ms) AS gpu_ms,
        sum(m.activity) // sum(m.ms) AS activity,
        sum(m.out_kb) AS out_kb, sum(w.written) AS written, sum(w.network) AS network
    FROM node_minutes m LEFT JOIN node_written w USING (nid, minute_ms) WHERE m.ms > 0 GROUP BY ALL
), usual AS (
    -- What the quieter and the busier quarter of the minutes are like: saving may fill half of them.
    SELECT rid, hour, quantile_disc(activity, 0.75) AS activity, quantile_disc(out_kb, 0.25) AS out_kb,
        quantile_disc(written, 0.25) AS written
    FROM minutes WHERE written IS NOT NULL GROUP BY ALL
), bursts AS (
    -- Copies leave the GPU before they are written: in the same minute, or the one before.
    SELECT m.*, coalesce(greatest(m.out_kb, lag(m.out_kb) OVER (PARTITION BY rid, hour ORDER BY minute_ms))
            >= 2 * u.out_kb, true) AS begins
    FROM minutes m JOIN usual u USING (rid, hour)
    WHERE true QUALIFY m.written >= 3 * u.written AND m.written * 60000 >= $checkpoint_bytes_per_gpu * m.gpu_ms
        AND m.activity * 1000 <= u.activity * $checkpoint_dip_permille
), saves AS (
    -- Minutes of writing one after another are one save, however long it is: it is seen by how it begins.
    SELECT *, minute_ms // 60000 - row_number() OVER (PARTITION BY rid ORDER BY minute_ms) AS save FROM bursts
)
SELECT k.run_id, m.minute_ms * 1000 AS minute, m.written::BIGINT AS written_bytes, m.network::BIGINT AS network_bytes
FROM saves m JOIN run_keys k USING (rid)
QUALIFY bool_or(m.begins) OVER (PARTITION BY m.rid, m.save ORDER BY m.minute_ms)
ON CONFLICT DO NOTHING
