"""A fleet for the pages, and its server: python -m bench.page_site STORE PORT serves what `write` wrote.

The ledger is that of bench/ledger_fleet.py, with 16 nodes to a rack; one run of eight GPUs has a reading of each every
ten seconds over its two days, and its states every ten minutes; all runs have their windows of the last week.
"""

import json
import sys
import threading
import time
from pathlib import Path

from analyzer.settings.settings import Settings
from bench.ledger_fleet import HOUR, Size
from bench.ledger_fleet import write as write_ledger
from collector.config import CollectorConfig
from collector.http.server import listen
from collector.store.database import Store
from dashboards.server.app import ServerConfig, create_server
from dashboards.server.prefetch import Prefetch

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
# Each run's windows of ten minutes of the last week, as a pass keeps them: in every third it waits for its input, and
# one run in five is slowed by its power limit throughout. What stands in both columns is what the demo's windows have.
_WINDOWS = """
INSERT INTO run_windows
WITH held AS (
    SELECT 'slurm/big/' || (n // 8 * 10000 + ($from - $start) // (48 * $hour) + w // 288) AS run, w % 3 = 0 AS waits,
        $from + w * 600000000 AS at_us, (n // 8 + ($from - $start) // (48 * $hour)) % 5 = 4 AS slow,
        (hash(n, w) % 100)::BIGINT AS noise
    FROM range(0, $gpus, 8) a(n), range(0, 144) b(w) WHERE n // 8 % 5 <> 0
)
SELECT run, at_us, to_json({
    'activity': 700 + noise, 'best': 980, 'block_read': noise * 1000003, 'busiest': if(waits, 960, 450) + noise // 4,
    'cores_milli': 96000, 'cores_used_milli': 12000 + noise * 31, 'cpu_busy': 120 + noise, 'cpu_throttled': 0,
    'disk_busy': 30 + noise // 3, 'dram': 400 + noise, 'gpus': 8, 'host_pressure_cpu': 2, 'host_pressure_io': 1,
    'mount_read': 0, 'ms': 4800000, 'network_in': 59000 + noise * 7, 'nodes': 1, 'nvlink_kb': 9000000 + noise * 1001,
    'pcie_in_kb': 191020130 + noise * 10007, 'pcie_out_kb': 0, 'power': 800 + noise, 'pressure_cpu': 0,
    'pressure_io': 0, 'run_id': run, 'shares_ms': 4800000, 'short': 0, 'slowed_least': 0,
    'slowed_most': if(slow, 60 + noise // 4, 0), 'sm_ms': 4800000, 'still': if(waits, 400 + noise, noise),
    'tensor': 300 + noise, 'utilization': if(waits, 600, 980), 'waiting': 0, 'window_ms': at_us // 1000, 'workers': 16,
    'written': 897174 + noise})::VARCHAR,
    to_json({
    'beyond_policy_permille': 0, 'caused_by': NULL, 'cross_rack_permille': 0, 'crossing_permille': 0,
    'exchange_confidence': 'medium', 'idle_permille': 0, 'input_cause': if(waits, 'preprocessing', NULL),
    'input_confidence': 'high', 'input_suspicion': NULL, 'is_exchanging': false, 'is_hung': false,
    'is_interactive': false, 'is_low': waits, 'is_service': false, 'is_underused': false, 'lagging_permille': 0,
    'run_id': run, 'steady_permille': 0, 'straggler_permille': 0, 'underused_cause': NULL,
    'underused_confidence': 'medium', 'window_ms': at_us // 1000, 'work': 'compute'})::VARCHAR
FROM held ORDER BY 1, 2
"""
# What a pass leaves that changed an hour: its mark, and the hour's new digest.
_PASSED = """
UPDATE ledger_hours SET input_digest = input_digest || '+' WHERE hour = (SELECT max(hour) FROM ledger_hours);
INSERT INTO analysis
SELECT coalesce(max(analysed_batch), 0) + 1, coalesce(max(analysed_at), 0) + 1 FROM analysis
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
        for day in range(168 // 24):
            first = size.start + (168 + 24 * day) * HOUR
            session.execute(_WINDOWS, {"from": first, "start": size.start, "hour": HOUR, "gpus": gpus})
    return rows


def main() -> int:
    """Serve a store until a signal ends it; nothing is analysed, for the ledger is made up.

    A line on stdin stands for a pass that changed an hour; a line on stdout says that what is made ahead is made.
    """
    path, port = Path(sys.argv[1]), int(sys.argv[2])
    config = CollectorConfig(store=path, listen=f"127.0.0.1:{port}")
    with Store.open(path) as store:
        app = create_server(ServerConfig(config, Settings(timezone="Europe/Berlin"), None, collects=False), store)
        app.state.alive = lambda: True
        threading.Thread(target=_passes, args=(store, app.state.prefetch), daemon=True).start()
        threading.Thread(target=_tell, args=(app.state.prefetch,), daemon=True).start()
        listen(app, config, "the page is at %s/")
    return 0


def _passes(store: Store, warming: Prefetch) -> None:
    for _ in sys.stdin:
        with store.session() as session, session.transaction():
            for statement in _PASSED.split(";"):
                session.execute(statement)
        warming.ask()


def _tell(warming: Prefetch) -> None:
    told = 0
    while True:
        if warming.turns > told:
            told = warming.turns
            line = {"turn": told, "pages": warming.made, "cpu": time.process_time(), "is_whole": not warming.is_asked}
            print(json.dumps(line), flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
