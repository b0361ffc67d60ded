-- Corrected errors of each GPU by week before the end of the period, 0 the newest; weeks without any have no row.
SELECT node, gpu_uuid, week, sum(events)::BIGINT AS events FROM (
    SELECT node, gpu_uuid, ($end - 1 - started_at) // 604800000000 AS week, ecc_corrected_events AS events
        FROM gpu_samples
    WHERE started_at >= $end - $weeks * 604800000000 AND started_at >= $samples_from AND started_at < $end
        AND ecc_corrected_events > 0)
GROUP BY ALL ORDER BY ALL;

-- The same of what has expired or is rolled up.
SELECT node, gpu_uuid, ($end - 1 - started_at) // 604800000000 AS week, sum(ecc_corrected_events)::BIGINT AS events
    FROM gpu_hours
WHERE started_at >= $end - $weeks * 604800000000 AND started_at < $samples_from AND started_at < $end
    AND ecc_corrected_events > 0
GROUP BY ALL ORDER BY ALL;

-- Uncorrected errors, and in how many intervals each Xid came. Agents before the contract's version 4, and Prometheus,
-- know
-- the newest of an interval alone. After a silence the number of events is unknown, and the Xids are not.
SELECT node, gpu_uuid, sum(ecc_uncorrected_events)::BIGINT AS uncorrected, 0 AS xid FROM gpu_samples
WHERE started_at >= $start AND started_at < $end AND ecc_uncorrected_events > 0 GROUP BY ALL
UNION ALL
SELECT node, gpu_uuid, count(*), xid FROM (
    SELECT node, gpu_uuid, unnest(list_distinct(list_transform(
        string_split(coalesce(xid_numbers, xid_last::VARCHAR), ','), lambda number: try_cast(number AS BIGINT)))) AS xid
    FROM gpu_samples
    WHERE started_at >= $start AND started_at < $end AND coalesce(xid_numbers, xid_last::VARCHAR) IS NOT NULL
        AND coalesce(xid_events, 1) > 0)
WHERE xid > 0 GROUP BY ALL
ORDER BY ALL;

-- Rows of memory that were replaced within the period, and all of them.
SELECT node, gpu_uuid, max(remapped) - arg_min(remapped, hour) AS grown, max(remapped) AS remapped FROM notice_gpu_hours
WHERE remapped IS NOT NULL GROUP BY ALL HAVING max(remapped) > 0 ORDER BY ALL;

-- Which of it was told of at all in the newest hour.
SELECT count(ecc_corrected_events) > 0 AS corrected, count(ecc_uncorrected_events) > 0 AS uncorrected,
    count(xid_events) > 0 AS xids, count(*) AS samples
FROM gpu_samples WHERE started_at >= $last AND started_at < $end;

-- Xids of which nobody said which they were.
SELECT coalesce(sum(xid_events), 0)::BIGINT FROM gpu_samples
WHERE started_at >= $start AND started_at < $end AND xid_events > 0 AND xid_last IS NULL AND xid_numbers IS NULL
