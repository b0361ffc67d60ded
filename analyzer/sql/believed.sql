-- Whose word is believed of which run, where hosts send under keys of their own. A scheduler's word stands; a host is heard of a
-- run that its scheduler has put there, and of one that no scheduler knows where it was there from the run's beginning.

CREATE OR REPLACE TEMP TABLE scheduled AS
SELECT DISTINCT run_id, node FROM allocations
WHERE told_by IS NULL AND node IS NOT NULL AND coalesce(scheduler, split_part(run_id, '/', 1)) NOT IN ('process', 'declared', 'cgroup');

-- When each host first said that it holds GPUs for a run, by the collectors' clocks.
CREATE OR REPLACE TEMP TABLE claims AS
SELECT run_id, told_by AS node, min(batch >> 8) AS at_us FROM allocations WHERE told_by IS NOT NULL GROUP BY ALL;

CREATE OR REPLACE TEMP TABLE hosts_heard AS SELECT node FROM gpus_sighted UNION SELECT node FROM claims;

-- Where a scheduler calls hosts by other names than they call themselves, nothing follows from the names.
CREATE OR REPLACE TEMP TABLE vouched AS SELECT DISTINCT run_id FROM scheduled WHERE node IN (FROM hosts_heard);

-- Another name of a run is believed of a scheduler, else of hosts that all use it alike, none of which is a stranger to the run.
CREATE OR REPLACE TEMP TABLE names_believed AS
WITH of_hosts AS (
    SELECT DISTINCT alias_run_id, run_id, told_by AS node FROM run_aliases WHERE told_by IS NOT NULL
), disputed AS (
    SELECT h.alias_run_id, h.run_id FROM of_hosts h JOIN claims c ON c.run_id = h.alias_run_id
    WHERE (h.alias_run_id, h.run_id, c.node) NOT IN (FROM of_hosts)
)
SELECT DISTINCT alias_run_id, run_id, NULL::VARCHAR AS node FROM run_aliases WHERE told_by IS NULL
UNION
SELECT * FROM of_hosts
WHERE alias_run_id NOT IN (SELECT run_id FROM scheduled) AND (alias_run_id, run_id) NOT IN (FROM disputed)
    AND alias_run_id NOT IN (SELECT alias_run_id FROM run_aliases WHERE told_by IS NULL)
    AND (run_id NOT IN (FROM vouched) OR (run_id, node) IN (FROM scheduled));

-- By the names that hosts use: of which runs each is heard.
CREATE OR REPLACE TEMP TABLE heard AS
WITH meant AS (
    SELECT c.run_id, c.node, c.at_us, coalesce(n.run_id, c.run_id) AS run FROM claims c
    LEFT JOIN names_believed n ON n.alias_run_id = c.run_id AND (n.node IS NULL OR n.node = c.node)
), begun AS (
    SELECT *, min(at_us) OVER (PARTITION BY run) AS first_us, split_part(run, '/', 2) AS place FROM meant
)
SELECT run_id, node FROM begun
WHERE CASE WHEN run IN (FROM vouched) THEN (run, node) IN (FROM scheduled)
           WHEN split_part(run, '/', 1) IN ('process', 'declared') AND place IN (FROM hosts_heard) THEN place = node
           ELSE at_us - first_us <= $joining_us END
UNION
SELECT run_id, node FROM scheduled
UNION
SELECT n.alias_run_id, s.node FROM names_believed n JOIN scheduled s USING (run_id)
