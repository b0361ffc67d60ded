-- A checkpoint is a dip of all ranks with a burst from the GPUs and a burst to storage (reference: algorithms 1.2).
-- Reads of_interest (rid, uid, from_ms, ms, sample_ms, activity, pcie_out_kb) over [$from_us, $until_us).

CREATE OR REPLACE TEMP TABLE minutes AS
SELECT p.rid, p.from_ms // 60000 * 60000 AS minute_ms, count(DISTINCT p.uid) AS gpus,
    (sum(p.activity::BIGINT * p.ms) // sum(p.ms)) AS activity,
    sum(p.pcie_out_kb::BIGINT * p.ms // p.sample_ms) AS out_kb
FROM of_interest p WHERE p.activity IS NOT NULL AND p.ms > 0 GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE node_written AS
SELECT n.nid, d.started_at // 60000000 * 60000 AS minute_ms, sum(d.written_bytes) AS written
FROM disk_samples d JOIN nodes n USING (node)
WHERE d.started_at >= $from_us AND d.started_at < $until_us AND d.written_bytes IS NOT NULL GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE run_written AS
SELECT r.rid, w.minute_ms, sum(w.written)::BIGINT AS written
FROM (SELECT DISTINCT p.rid, u.nid, p.from_ms // 60000 * 60000 AS minute_ms FROM of_interest p JOIN units u USING (uid)) r
JOIN node_written w USING (nid, minute_ms) GROUP BY ALL;

INSERT INTO checkpoints
WITH joined AS (
    SELECT m.*, w.written, m.minute_ms // 3600000 AS hour FROM minutes m JOIN run_written w USING (rid, minute_ms)
), usual AS (
    SELECT rid, hour, quantile_disc(activity, 0.5) AS activity, quantile_disc(out_kb, 0.5) AS out_kb, quantile_disc(written, 0.5) AS written
    FROM joined GROUP BY ALL
)
SELECT k.run_id, j.minute_ms * 1000, j.written
FROM joined j JOIN usual u USING (rid, hour) JOIN run_keys k USING (rid)
WHERE j.written >= 3 * u.written AND j.written >= $checkpoint_bytes_per_gpu * j.gpus
    AND j.activity * 1000 <= u.activity * $checkpoint_dip_permille
    AND (j.out_kb IS NULL OR j.out_kb >= 2 * u.out_kb)
ON CONFLICT DO NOTHING
