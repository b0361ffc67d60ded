"""A fleet for the pages, and its server: python -m bench.page_site STORE PORT serves what `write` wrote.

The ledger is that of bench/ledger_fleet.py, with 16 nodes to a rack; one run of eight GPUs has a reading of each every
ten seconds over its two days, and its states every ten minutes.
"""

import sys
from pathlib import Path

from analyzer.config import Settings
from bench.ledger_fleet import HOUR, Size
from bench.ledger_fleet import write as write_ledger
from collector.config import CollectorConfig
from collector.server import listen
from collector.store.database import Store
from dashboards.app import ServerConfig, create_server

RUN = f"slurm/big/{10_000 + 168 // 48}"  # on node n1, over the last week's first two days
NODES_A_RACK = 16
SECOND, DAYS = 1_000_000, 2
EVERY_SECONDS = 10

_RACKS = """
INSERT INTO inventory (node, started_at, ended_at, gpu_uuid, gpu_index, rack, batch)
SELECT 'n' || n // 8, $start, $start + $hour, CASE WHEN whole THEN NULL ELSE 'GPU-' || n END,
    CASE WHEN whole THEN NULL ELSE n % 8 END,
    CASE WHEN whole THEN printf('rack-%02d', n // 8 // $nodes) END, 1
FROM range(0, $gpus) a(n), (VALUES (true), (false)) b(whole) WHERE NOT whole OR n % 8 = 0
"""
_HELD = """
INSERT INTO allocations (node, run_id, gpu_uuid, started_at, ended_at, batch)
SELECT 'n1', $run, 'GPU-' || g, $start, $until, 1 FROM range(8, 16) a(g)
"""
_SAMPLES = """
INSERT INTO gpu_samples (node, gpu_uuid, started_at, ended_at, up, utilization_ratio, sm_active_ratio,
    tensor_active_ratio, dram_active_ratio, power_watts, pcie_receive_bytes, batch)
SELECT 'n1', 'GPU-' || g, began, began + $every, true, least(1, busy + 0.2), busy, busy * 0.6, busy * 0.7,
    100 + 550 * busy, (busy * 2e9)::BIGINT, 1
FROM (
    SELECT g, $start + i * $every AS began,
        if(i % 180 < 6, 0.0, 0.55 + 0.3 * (hash(g * 7 + i // 3) % 100) / 100) AS busy
    FROM range(8, 16) a(g), range(0, ($until - $start) // $every) b(i)
)
"""
_STATES = """
INSERT INTO run_timeline
SELECT $run, $start + i * 600000000, state, cause, ms
FROM range(0, ($until - $start) // 600000000) a(i),
    (VALUES ('productive', 'compute', 3360000), ('starved', 'preprocessing', 960000),
        ('checkpointing', 'storage', 480000)) b(state, cause, ms)
"""


def write(path: Path, gpus: int) -> int:
    """Write the store of two weeks; return how many rows the ledger has."""
    size = Size(gpus, 2)
    rows = write_ledger(path, size)
    start = size.start + 168 // 48 * 48 * HOUR
    about: dict[str, object] = {
        "start": start, "until": start + DAYS * 24 * HOUR, "hour": HOUR, "gpus": gpus,
        "nodes": NODES_A_RACK, "run": RUN, "every": EVERY_SECONDS * SECOND,
    }  # fmt: skip
    with Store.open(path, memory_limit="2GB") as store, store.session() as session:
        for statement in (_RACKS, _HELD, _SAMPLES, _STATES):
            session.execute(statement, {name: value for name, value in about.items() if f"${name}" in statement})
    return rows


def main() -> int:
    """Serve a store until a signal ends it; nothing is analysed, for the ledger is made up."""
    path, port = Path(sys.argv[1]), int(sys.argv[2])
    config = CollectorConfig(store=path, listen=f"127.0.0.1:{port}")
    with Store.open(path) as store:
        app = create_server(ServerConfig(config, Settings(timezone="Europe/Berlin"), None, collects=False), store)
        app.state.alive = lambda: True
        listen(app, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
