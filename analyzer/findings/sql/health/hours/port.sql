-- Each RDMA port in each hour: its speed as told last, and its errors.
CREATE OR REPLACE TEMP TABLE notice_port_hours (
    hour BIGINT, node VARCHAR, device VARCHAR, link_kind VARCHAR, ms BIGINT, speed BIGINT, errors BIGINT
);

-- From the tier of hours.
INSERT INTO notice_port_hours BY NAME
SELECT started_at AS hour, node, device, link_kind, measured_ms AS ms, speed_bytes_per_second::BIGINT AS speed, errors
FROM network_hours WHERE started_at >= $start AND started_at < $end AND link_kind IN ('infiniband', 'roce', 'efa');

-- From samples.
INSERT INTO notice_port_hours BY NAME
SELECT started_at // 3600000000 * 3600000000 AS hour, node, device, link_kind,
    sum((ended_at - started_at) // 1000)::BIGINT AS ms,
    arg_max(speed_bytes_per_second::BIGINT, started_at) FILTER (speed_bytes_per_second IS NOT NULL) AS speed,
    sum(errors)::BIGINT AS errors
FROM network_samples WHERE started_at >= $start AND started_at < $end AND link_kind IN ('infiniband', 'roce', 'efa')
    GROUP BY ALL
