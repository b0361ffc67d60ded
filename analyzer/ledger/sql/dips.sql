-- Where samples are finer than a second, a stall is not a share but a stretch: samples that stand still in a row.
-- Only then does `zero` come from utilization, and only within such a stretch; short gaps between kernels are no stall.

CREATE OR REPLACE TEMP TABLE dips AS
WITH numbered AS (
    SELECT n.*, o.k FROM narrow n JOIN ordered o ON o.r = n.rowid
), low AS (
    SELECT uid, k, from_ms, until_ms, utilization, k - row_number() OVER (PARTITION BY uid ORDER BY k) AS island
    FROM numbered WHERE zero IS NULL AND until_ms - from_ms < 1000 AND utilization < 500
), stretches AS (
    SELECT uid, min(k) AS first_k, max(k) AS last_k, min(from_ms) AS from_ms, max(until_ms) AS until_ms,
        count(*) FILTER (utilization < 50) AS still
    FROM low GROUP BY uid, island
), copies AS (
    SELECT uid, k FROM numbered WHERE until_ms - from_ms < 1000 AND pcie_in_kb >= 1000
)
SELECT s.*, EXISTS (SELECT 1 FROM copies c WHERE c.uid = s.uid AND c.k BETWEEN s.last_k AND s.last_k + 1) AS refilled
FROM stretches s WHERE still >= $dip_samples;

UPDATE narrow SET zero = 0 WHERE zero IS NULL AND utilization IS NOT NULL AND until_ms - from_ms < 1000;

UPDATE narrow SET zero = 1000 - utilization
WHERE EXISTS (
    SELECT 1 FROM ordered o JOIN dips d ON d.uid = o.uid AND o.k BETWEEN d.first_k AND d.last_k
        WHERE o.r = narrow.rowid)
