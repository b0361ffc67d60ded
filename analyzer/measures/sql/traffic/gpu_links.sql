-- What the runs' GPUs sent to one another over NVLink.
SELECT run_id, sum(transmit_bytes) AS bytes
FROM traffic_amounts WHERE kind = 'gpu_link' AND list_contains($runs::VARCHAR[], run_id)
    AND hour >= $from_us // 3600000000 * 3600000000 AND hour < $until_us
GROUP BY ALL ORDER BY ALL
