"""What the upkeep takes where most lies before it: rolling up and dropping the demo's week, and an hour of 10,000 GPUs.

In a process of its own with a server's default memory for DuckDB and its default threads; peak memory is the operating
system's own count, of the whole process.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.demo_store import demo_fleet, fill
from bench.machine import add_record, keep, machine, told
from bench.scale_fleet import MONDAY_US, Size, found, hour
from collector.config import CollectorConfig
from collector.lake.sealing import seal
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.seal_mark import Mark

GPUS = 10_000
BAR_MEGABYTES = 1_200  # the memory for DuckDB, as much again for the process beside it

# Until nothing waits, as the server's thread does it; printed as JSON.
_KEEP_UP = """
import json, re, sys, time
from pathlib import Path
from collector.config import CollectorConfig
from collector.store.database import open_store
from collector.store.schemas import make_tier_tables
from collector.tier_tables import RAW
from collector.lake.retention import Keeping, drop
from collector.lake.tiers import roll_up
before, began = time.process_time(), time.monotonic()
with open_store(CollectorConfig(store=Path(sys.argv[1]))) as store:
    make_tier_tables(store)
    while roll_up(store, time.monotonic() + 60).again:
        pass
    held = []
    drop(store, Keeping(), int(sys.argv[2]), held.append)
    with store.session() as session:
        minutes, hours, left, waiting = session.row(
            "SELECT (SELECT count(*) FROM gpu_minutes), (SELECT count(*) FROM gpu_hours), "
            "(SELECT count(*) FROM gpu_samples), (SELECT count(*) FROM tier_due)")
print(json.dumps({"seconds": round(time.monotonic() - began, 1), "cpu_seconds": round(time.process_time() - before, 1),
    "minutes": minutes, "hours": hours, "samples_left": left, "hours_waiting": waiting,
    "dropped": sum(held[0].rows.get(table, 0) for table in RAW),
    "tiers_dropped": sum(rows for table, rows in held[0].rows.items() if table not in RAW),
    "held_days": held[0].held_days,
    "peak_megabytes": int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024}))
"""


def main() -> int:
    """Make both, keep them up, print and keep."""
    parser = argparse.ArgumentParser(prog="make bench-upkeep", description=__doc__)
    parser.add_argument("--gpus", type=int, default=GPUS)
    add_record(parser)
    asked = parser.parse_args()
    sizes = {
        "the demo's week": _demo,
        f"an hour of {asked.gpus:,} GPUs": lambda store: _hour(store, Size(asked.gpus // 8)),
    }
    kept = {name: _measured(name, filled) for name, filled in sizes.items()}
    limit = CollectorConfig().memory_limit
    keep("upkeep", {"machine": machine(), "memory_limit": limit, "sizes": kept}, record=asked.record)
    bars = {}
    for name, one in kept.items():
        bars[f"{name} in {one['peak_megabytes']} MB (bar: {BAR_MEGABYTES})"] = one["peak_megabytes"] <= BAR_MEGABYTES
        # Nobody has booked anything: whatever its age no sample may go; tiers are made of samples.
        bars[f"{name}: all is rolled up, and nothing dropped that no ledger has"] = (
            one["hours_waiting"] == 0 and one["dropped"] == 0 and one["samples_left"] == one["samples"]
        )
    return told(bars)


def _measured(name: str, filled: Callable[[Store], int]) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "store.duckdb"
        lake = default_lake(path)
        with Store.open(path, lake=lake, memory_limit="4GB") as store:
            samples = filled(store)
        later = str(MONDAY_US + 700 * 24 * 3_600_000_000)
        words = [sys.executable, "-c", _KEEP_UP, str(path), later]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        one: dict[str, int] = {"samples": samples, **json.loads(done.stdout)}
        print(f"{name}: {one}", flush=True)
        return one


def _demo(store: Store) -> int:
    fill(store, demo_fleet(1, 60, 10))
    mark = Mark.of(store)
    while seal(store, mark).more:
        pass
    return _count(store)


def _hour(store: Store, size: Size) -> int:
    with store.turn, store.session() as session:
        found(session, size)
        hour(session, size, 0, 2)
    return _count(store)


def _count(store: Store) -> int:
    with store.session() as session:
        return int(session.row("SELECT count(*) FROM gpu_samples")[0])


if __name__ == "__main__":
    sys.exit(main())
