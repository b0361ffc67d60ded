-- The part of what is due that is booked next; and who holds it.
CREATE OR REPLACE TEMP TABLE chunk AS
SELECT gid, hour_ms FROM due_groups
WHERE hour_ms >= $from_ms AND hour_ms < $until_ms AND part = $part;

CREATE OR REPLACE TEMP TABLE chunk_gpus AS SELECT DISTINCT gid FROM chunk;

CREATE OR REPLACE TEMP TABLE chunk_nodes AS SELECT DISTINCT u.nid FROM chunk_gpus JOIN units u USING (gid);

-- Runs and hours of which everything is said anew: those that hold, and those that held as of the last pass.
CREATE OR REPLACE TEMP TABLE remade AS
SELECT DISTINCT k.run_id, c.hour_ms
FROM chunk c JOIN holds h ON h.gid = c.gid AND h.from_ms < c.hour_ms + 3600000 AND h.until_ms > c.hour_ms
    JOIN run_keys k USING (rid)
UNION
SELECT DISTINCT l.run_id, l.hour // 1000 FROM ledger l JOIN gpus g USING (gpu_uuid) JOIN chunk c ON c.gid = g.gid
    AND c.hour_ms = l.hour // 1000
WHERE l.hour >= $from_us AND l.hour < $until_us AND l.run_id IS NOT NULL;

-- Hosts that are booked anew whole, by name: GPUs that were known as slots of theirs have gone with it.
CREATE OR REPLACE TEMP TABLE whole_nodes AS
WITH here AS (
    SELECT g.node, c.hour_ms, count(*) AS gpus FROM chunk c JOIN gpus g USING (gid) GROUP BY ALL
), owned_there AS (
    SELECT node, count(*) AS gpus FROM gpus GROUP BY node
)
SELECT h.node, h.hour_ms FROM here h JOIN owned_there USING (node, gpus)
