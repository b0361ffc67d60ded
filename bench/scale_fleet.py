"""A fleet of any size, made in the store by SQL: what the analyzer's time is measured on as fleets grow.

Hosts of eight H100s in racks of sixteen. Of each ten hosts four are one run of 32 GPUs, two are runs of eight, two are
eight runs of one GPU each,
    one is a service's and one is held by nobody. Values follow from what the run does: it works,
waits for its input, spins with its peers, or rests. Nothing here says what the analyzer should find.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session

HOUR_US = 3_600_000_000
MONDAY_US = 1_762_732_800_000_000
GPUS_PER_HOST = 8
FOR_GOOD_US = MONDAY_US + 400 * 24 * HOUR_US

_FLEET = """
CREATE OR REPLACE TEMP TABLE fleet AS
SELECT h, g, 'n' || lpad(h::VARCHAR, 6, '0') AS node, 'GPU-' || lpad((h * 8 + g)::VARCHAR, 8, '0') AS gpu_uuid,
    h // 16 AS rack,
    CASE WHEN h % 10 < 4 THEN 'big' WHEN h % 10 < 6 THEN 'host' WHEN h % 10 < 8 THEN 'small'
        WHEN h % 10 = 8 THEN 'service' ELSE 'free' END AS kind,
    CASE WHEN h % 10 < 4 THEN 'slurm/big/' || h // 10 WHEN h % 10 < 6 THEN 'slurm/host/' || h
        WHEN h % 10 < 8 THEN 'slurm/small/' || h * 8 + g
         WHEN h % 10 = 8 THEN 'kubernetes/service/' || h END AS run_id,
    CASE WHEN h % 10 < 4 THEN (h // 10) % 3 WHEN h % 10 < 6 THEN h % 4 WHEN h % 10 < 8 THEN g % 4 ELSE 3 END AS doing
FROM range($hosts) a(h), range(8) b(g)
"""

_FACTS = (
    """
    INSERT INTO ownership BY NAME
    SELECT node, gpu_uuid, $from_us AS owned_from, 'H100-80GB' AS sku, 'owned' AS purchase_option, 'bench' AS source,
        $batch AS batch FROM fleet
    """,
    """
    INSERT INTO inventory BY NAME
    SELECT node, $from_us AS started_at, $from_us + 1 AS ended_at, gpu_uuid, g AS gpu_index, 'H100-80GB' AS sku,
        85899345920 AS memory_bytes, 700.0 AS power_limit_watts, $batch AS batch FROM fleet
    """,
    """
    INSERT INTO inventory BY NAME
    SELECT DISTINCT node, $from_us AS started_at, $from_us + 1 AS ended_at, 'rack-' || rack AS rack, 96 AS cpu_cores,
        $batch AS batch FROM fleet
    """,
    """
    INSERT INTO allocations BY NAME
    SELECT node, $from_us AS submitted_at, $from_us AS started_at, NULL::BIGINT AS ended_at, run_id, gpu_uuid,
        0 AS attempt, row_number() OVER (PARTITION BY run_id ORDER BY h, g) - 1 AS rank,
        split_part(run_id, '/', 1) AS scheduler, kind || '-' || doing AS name,
        if(kind = 'service', 'serving', 'train') AS queue, $batch AS batch
    FROM fleet WHERE run_id IS NOT NULL
    """,
)

# Who waits for input does so for 40 s of each hundred; who exchanges spins for a third of each minute.
_SAMPLES = """
INSERT INTO gpu_samples BY NAME
WITH beats AS (
    SELECT f.*, $from_us + b * 10000000 AS started_at, b, hash(gpu_uuid, b) % 100 AS wobble,
        CASE WHEN run_id IS NULL THEN 'rest' WHEN doing = 3 AND kind = 'service' AND b % 9 < 6 THEN 'rest'
             WHEN doing = 1 AND b % 10 < 4 THEN 'wait' WHEN doing = 2 AND b % 6 < 2 AND kind = 'big' THEN 'spin'
                 ELSE 'work' END AS phase
    FROM fleet f, range($beats) t(b) WHERE node BETWEEN $first AND $last
)
SELECT node, started_at, started_at + 10000000 AS ended_at, gpu_uuid, true AS up,
    CASE phase WHEN 'work' THEN 0.97 WHEN 'spin' THEN 1.0 ELSE 0.0 END AS utilization_ratio,
    CASE phase WHEN 'work' THEN 0.0 WHEN 'spin' THEN 0.0 ELSE 1.0 END AS utilization_zero_ratio,
    CASE phase WHEN 'work' THEN 0.86 + wobble / 2000 WHEN 'spin' THEN 0.18 ELSE 0.0 END AS sm_active_ratio,
    CASE phase WHEN 'work' THEN 0.40 + wobble / 2000 ELSE 0.0 END AS tensor_active_ratio,
    CASE phase WHEN 'work' THEN 0.45 + wobble / 2000 ELSE 0.02 END AS dram_active_ratio,
    CASE phase WHEN 'work' THEN 620.0 + wobble WHEN 'spin' THEN 260.0 ELSE 120.0 END AS power_watts,
    40000000000 + wobble * 2097152 AS memory_used_bytes,
    CASE phase WHEN 'work' THEN 3000000000 ELSE 10000000 END + wobble * 1048576 AS pcie_receive_bytes,
    50000000 + wobble * 1048576 AS pcie_transmit_bytes,
    CASE WHEN kind IN ('big', 'host') AND phase <> 'wait' THEN 200000000000 ELSE 0 END AS nvlink_receive_bytes,
    CASE WHEN kind IN ('big', 'host') AND phase <> 'wait' THEN 200000000000 ELSE 0 END AS nvlink_transmit_bytes,
    1.9e9 AS sm_clock_hertz, 1.98e9 AS sm_clock_reference_hertz,
    0.0 AS throttle_power_seconds, 0.0 AS throttle_thermal_seconds, 0.0 AS throttle_hardware_seconds, $batch AS batch
FROM beats
"""

_HOSTS = (
    """
    INSERT INTO host_samples BY NAME
    SELECT node, started_at, started_at + 10000000 AS ended_at, 0.4 AS cpu_busy_ratio, 0.01 AS pressure_io_some_ratio,
        0.02 AS pressure_cpu_some_ratio, $batch AS batch FROM host_beats
    """,
    """
    INSERT INTO disk_samples BY NAME
    SELECT node, started_at, started_at + 10000000 AS ended_at, 'nvme0n1' AS device, 'block' AS mount_kind,
        400000000 + b * 1000 AS read_bytes, 2000000 AS written_bytes, 0.1 AS busy_ratio, $batch AS batch FROM host_beats
    """,
    """
    INSERT INTO network_samples BY NAME
    SELECT node, started_at, started_at + 10000000 AS ended_at, 'mlx5_0' AS device, 'infiniband' AS link_kind,
        90000000000 AS receive_bytes, 90000000000 AS transmit_bytes, $batch AS batch FROM host_beats
    """,
    """
    INSERT INTO run_samples BY NAME
    SELECT node, started_at, started_at + 60000000 AS ended_at, run_id, 0 AS read_bytes, 0 AS written_bytes,
        300.0 AS cpu_seconds, 0.0 AS cpu_throttled_seconds, 0.02 AS pressure_cpu_some_ratio,
        0.01 AS pressure_io_some_ratio, 32.0 AS cores_allotted, $batch AS batch
    FROM host_beats WHERE b % 6 = 0 AND run_id IS NOT NULL
    """,
    """
    INSERT INTO process_samples BY NAME
    SELECT f.node, started_at, started_at + 60000000 AS ended_at, f.run_id, f.gpu_uuid, 4711 AS pid,
        40000000000 AS memory_used_bytes, 60.0 AS cpu_seconds, 4 AS workers, 0.97 AS workers_busiest_cpu_ratio,
        0.0 AS workers_waiting_ratio, $batch AS batch
    FROM host_beats b JOIN fleet f USING (node) WHERE b.b % 6 = 0 AND f.run_id IS NOT NULL
    """,
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many hosts, of eight GPUs each."""

    hosts: int

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.hosts * GPUS_PER_HOST


def found(session: "Session", size: Size) -> None:
    """Say what there is and who holds it, from Monday on."""
    _receipt(session, 1)
    session.execute(_FLEET, {"hosts": size.hosts})
    for statement in _FACTS:
        _run(session, statement, from_us=MONDAY_US, batch=1)


def hour(session: "Session", size: Size, number: int, batch: int, hosts: range | None = None) -> None:
    """Land one hour of the fleet, or of some of its hosts, every ten seconds."""
    _receipt(session, batch)
    session.execute(_FLEET, {"hosts": size.hosts})
    hosts = hosts if hosts is not None else range(size.hosts)
    first, last = (f"n{at:06}" for at in (hosts[0], hosts[-1]))
    asked: dict[str, object] = {"from_us": MONDAY_US + number * HOUR_US, "beats": 360, "batch": batch}
    asked |= {"first": first, "last": last}
    _run(session, _SAMPLES, **asked)
    session.execute(
        "CREATE OR REPLACE TEMP TABLE host_beats AS SELECT node, any_value(run_id) AS run_id, b, $from_us + b * "
        "10000000 AS started_at  "
        "FROM fleet, range($beats) t(b) WHERE node BETWEEN $first AND $last GROUP BY node, b",
        {name: asked[name] for name in ("from_us", "beats", "first", "last")},
    )
    for statement in _HOSTS:
        _run(session, statement, **asked)


def _run(session: "Session", statement: str, **values: object) -> None:
    session.execute(statement, {name: value for name, value in values.items() if f"${name}" in statement})


def _receipt(session: "Session", batch: int) -> None:
    session.execute("INSERT INTO receipts VALUES (?, 'bench', 'bench', ?, '', 0, 0, 1, 0)", [batch, batch])
