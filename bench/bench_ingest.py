"""How many rows a second become durable, and sealed, over loopback: python bench/bench_ingest.py [--seconds 300].

A real collector that seals while it takes batches, and a load generator of 256 connections; both share this machine's
cores. At first each connection sends its next batch when the last was answered, which tells the most that can be taken.
Then, for as long as was asked, batches are due at an even pace, a little beyond the bar, in which sealing has to keep
up; with shapes that leave it no room for that on two cores, all goes on as at first, and it is told how far sealing is
behind in the end. No batch is sent twice: bodies of thousands of agents are made before the clock starts, with the
columns that an agent fills on a host of eight H100s (telemetry.py), and compressed as an agent does. Afterwards the
lake is opened and counted: rows that are not there make no rate.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from bench.bodies import Window
from bench.ingest_result import SHAPES, Result, Shape, bars, bound_of, result_of, table
from bench.machine import add_record, keep, machine, told
from bench.magazine import Order, make
from bench.sealed import sealed_batches, wait_until_sealed
from bench.serving import Spent, Watch, collector
from bench.telemetry import Simulation
from bench.volley import Volley, fire
from bench.windows import windows_of
from collector.store.database import Store

CONNECTIONS = 256
AGENTS = 8192
RECORDED_SECONDS = 3600
PEAK_SECONDS = 15.0
PEAK_BODIES = 30_000
BEYOND = 1.03  # the pace, in bars
SPARE = 1.1  # bodies made beyond what a closed loop took at first


def _windows(shape: Shape, simulation: Simulation) -> list[list[Window]]:
    return windows_of(simulation, shape.tables, shape.beats, RECORDED_SECONDS, every_column=shape.every_column)


def measured(
    shape: Shape, windows: list[list[Window]], seconds: float, settings: dict[str, str], asked_pace: float | None
) -> Result:
    """Run one shape against collectors of its own; `asked_pace` is in GPU samples a second."""
    rows = windows[0][0].rows
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        directory = Path(name)
        now = time.time_ns() // 1000
        with _Run(directory / "peak.duckdb", settings) as run:
            magazine = make(directory / "peak", windows, Order(PEAK_BODIES, AGENTS, now, generation=1))
            most = run.fire(iter(magazine), min(PEAK_SECONDS, seconds)).rate
            bound = bound_of(run.spent)
            magazine.close()
        samples = asked_pace or (BEYOND * shape.least if shape.paced and shape.least else None)
        pace = samples / rows["gpu_samples"] if samples else None
        count = int((pace or SPARE * most) * seconds) + CONNECTIONS
        print(f"  {most:,.0f} bodies/s at most; making {count:,}", file=sys.stderr)
        magazine = make(directory / "bodies", windows, Order(count, AGENTS, now))
        with _Run(directory / "store.duckdb", settings) as run:
            volley = run.fire(iter(magazine), seconds, pace)
            meanwhile = sealed_batches(run.store)
            took, missing = wait_until_sealed(run.store, volley.accepted, rows)
            assert missing == 0, f"{missing} rows that were acknowledged are not sealed"
        result = result_of(shape, volley, run.spent, rows, magazine.mean_bytes, (meanwhile, took))
        result.peak_gpu_samples_per_second, result.bound = round(most * rows["gpu_samples"]), bound
        result.lake_bytes_per_row = _lake_bytes(run.store) / (volley.accepted * sum(rows.values()))
        magazine.close()
        return result


class _Run:
    """A collector, watched while it is fired at, and stopped in order at the end."""

    def __init__(self, store: Path, settings: dict[str, str]) -> None:
        self.store = store
        self._collector = collector(store, settings)
        self.spent: Spent

    def __enter__(self) -> "_Run":
        self._collector.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._collector.stop()
        else:
            self._collector.kill()

    def fire(self, bodies: Iterator[bytes], seconds: float, pace: float | None = None) -> Volley:
        watch = Watch(self._collector.pid)
        watch.start()
        volley = fire(self._collector.port, bodies, seconds, CONNECTIONS, pace)
        self.spent = watch.stop()
        assert not volley.refusal, f"the collector refused a body: {volley.refusal}"
        return volley


def _lake_bytes(path: Path) -> int:
    with Store.open(path, read_only=True) as store:
        assert store.lake is not None
        assert store.lake.folder is not None
        return sum(file.stat().st_size for file in store.lake.folder.rglob("*") if file.is_file())


def main() -> int:
    """Measure every shape, print and keep the figures; 1 where a bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="for each shape")
    parser.add_argument("--shapes", default=",".join(shape.key for shape in SHAPES), help="which, by commas")
    parser.add_argument("--pace", type=float, help="GPU samples a second that are due")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the collector")
    add_record(parser)
    asked = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in asked.set)
    shapes = [shape for shape in SHAPES if shape.key in asked.shapes.split(",")]
    about, simulation, results = machine(), Simulation(), []
    for shape in shapes:
        print(shape.name, file=sys.stderr)
        results.append(measured(shape, _windows(shape, simulation), asked.seconds, settings, asked.pace))
        print(table(results[-1:]).splitlines()[-1], flush=True)
    kept = bars(results, shapes)
    found = {"machine": about, "settings": settings, "results": [asdict(one) for one in results], "bars": kept}
    keep("ingest", found, record=asked.record)
    print(table(results))
    return told(kept)


if __name__ == "__main__":
    sys.exit(main())
