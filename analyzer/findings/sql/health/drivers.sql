-- The driver of each host with GPUs, as told last before the end of the period, and the group it belongs to.
WITH told AS (
    SELECT node, arg_max(driver_version, (started_at, batch)) FILTER (driver_version IS NOT NULL) AS driver,
        arg_max(node_group, (started_at, batch)) FILTER (node_group IS NOT NULL) AS node_group
    FROM inventory WHERE started_at < $end GROUP BY node
)
SELECT coalesce(t.node_group, 'all hosts') AS node_group, l.node, t.driver
FROM (SELECT DISTINCT node FROM ledger WHERE hour >= $start AND hour < $end) l LEFT JOIN told t USING (node)
ORDER BY ALL
