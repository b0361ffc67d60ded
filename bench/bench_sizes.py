"""How many bytes a row takes in the lake, by table and tier, once compacted: python bench/bench_sizes.py [--hours 3].

Sizes do not depend on how busy the machine is, so this may run beside other work. The readings are those of
bench_ingest (one a second, the columns that an agent fills on a host of eight H100s), taken, sealed, rolled up and
compacted by the product's own code; then the catalogue is asked how large its files are. docs/sizing.md is made of it.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from agent.wire.units import DAY_US
from bench.bodies import SECOND, Window, speaker, window
from bench.machine import add_record, keep, machine
from bench.telemetry import BEATEN, SLOW, Simulation
from collector.lake.compaction import compact
from collector.lake.lake_files import files
from collector.lake.sealing import seal
from collector.lake.tiers import roll_up
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.batch import decode
from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.schemas import make_tier_tables
from collector.store.seal_mark import Mark
from collector.tier_tables import layouts, tier_of
from simulator.site import Host

HOSTS = 8
BEATS = 60  # of one batch
DEADLINE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Size:
    """One table: its rows, their bytes in Parquet, and its rows for a GPU and hour at one reading a second."""

    table: str
    tier: str
    rows: int
    bytes: int
    bytes_per_row: float
    rows_per_gpu_hour: float


def fill(store: Store, hours: int) -> float:
    """Land and seal so many hours of the hosts, on the day before yesterday; return the bytes of a batch as it came."""
    simulation = Simulation()
    start = (time.time_ns() // 1000 // DAY_US - 2) * DAY_US
    mark, sent, count = Mark.of(store), 0, 0
    windows = [_windows(simulation, host, hours) for host in simulation.hosts[:HOSTS]]
    with BatchCommit(store, mark) as batch_commit:
        for sequence in range(len(windows[0])):
            bodies = []
            for number, host in enumerate(windows):
                ends_at = start + (sequence + 1) * BEATS * SECOND
                body = host[sequence].body(speaker(number), sequence, ends_at)
                bodies.append(decode(body, ends_at + 100_000))
                sent, count = sent + len(body), count + 1
            batch_commit.land(bodies)
            if sequence % 30 == 29:
                seal(store, mark)
    seal(store, mark)
    return sent / count


def sizes(store: Store, hours: int) -> list[Size]:
    """Roll up, compact, and return what each table takes."""
    make_tier_tables(store)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while roll_up(store, deadline).again:
        pass
    while compact(store, deadline, time.time_ns() // 1000).again:
        pass
    clocks = {name: layout.clock for name, layout in layouts().items()}
    with store.session() as session:
        held = files(session, clocks)
    found = []
    for table in sorted({file.table for file in held}):
        rows = sum(file.rows for file in held if file.table == table)
        taken = sum(file.bytes for file in held if file.table == table)
        per_gpu_hour = rows / (HOSTS * 8 * hours)
        found.append(Size(table, tier_of(table), rows, taken, round(taken / rows, 2), round(per_gpu_hour, 3)))
    return found


def _windows(simulation: Simulation, host: Host, hours: int) -> list[Window]:
    recorded = simulation.tables(host, hours * 3600, tuple(BEATEN | SLOW))
    return [window(recorded, beat, BEATS) for beat in range(0, hours * 3600, BEATS)]


def main(argv: list[str]) -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=int, default=3)
    add_record(parser)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as folder:
        path = Path(folder) / "store.duckdb"
        with Store.open(path, lake=default_lake(path), memory_limit="2GB") as store:
            body = fill(store, options.hours)
            found = sizes(store, options.hours)
    for size in found:
        print(f"{size.table:32} {size.rows:>10,} rows {size.bytes_per_row:>8.1f} bytes a row")
    raw = {"hosts": HOSTS, "hours": options.hours, "body_bytes_of_a_minute": round(body, 1)}
    tables = [asdict(size) for size in found]
    keep("sizes", {"machine": machine(), **raw, "tables": tables}, record=options.record)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
