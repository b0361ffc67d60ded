"""How long an hour of a fleet takes from samples to ledger and findings, as fleets grow: python bench/bench_scale.py.

Each size has an hour behind it that is booked already. Timed is the next hour, in a process of its own, from the opened
store to the last finding: what a pass does that makes the newest hour. Then an hour that one host sends late, of the
first of the two. Peak memory is the operating system's own count. Cost as it grows is told as the exponent between
sizes. Samples are read from the lake's Parquet, as a server does.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from bench.machine import add_record, keep, machine, told
from bench.scale_fleet import Size, found, hour
from collector.store.database import Store
from collector.store.lake import default_lake

GPUS = [1_000, 10_000, 100_000]
BAR_GPUS, BAR_SECONDS, BAR_MEGABYTES = 10_000, 6.0, 1_000
LATE_HOST = 5

_PASS = """
import json, re, sys, time
from pathlib import Path
from analyzer.analysis import analyze
from analyzer.settings.settings import Settings
from analyzer.findings.ledger_findings import findings
from collector.store.database import Store
settings = Settings()
before = time.process_time()
with Store.open(Path(sys.argv[1]), memory_limit=settings.memory_limit, threads=settings.threads) as store:
    began = time.monotonic()
    done = analyze(store, settings, now_us=int(sys.argv[2]))
    booked = time.monotonic()
    with store.session() as session:
        count = len(findings(session, int(sys.argv[2]) - 3_600_000_000, int(sys.argv[2])))
    ended = time.monotonic()
print(json.dumps({"seconds": round(ended - began, 2), "booking_seconds": round(booked - began, 2),
    "cpu_seconds": round(time.process_time() - before, 2), "gpu_hours": done.gpu_hours, "rows": done.rows,
    "findings": count,
    "peak_megabytes": int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024}))
"""


def main() -> int:
    """Make, time, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, nargs="+", default=GPUS)
    parser.add_argument("--times", type=int, default=3, help="new hours of each size; of the largest one alone")
    add_record(parser)
    asked = parser.parse_args()
    sizes = {}
    for gpus in asked.gpus:
        times = 1 if gpus == max(asked.gpus) and len(asked.gpus) > 1 else asked.times
        sizes[gpus] = _measure(Size(gpus // 8), times)
    grown = _exponents({gpus: min(run["seconds"] for run in size["hours"]) for gpus, size in sizes.items()})
    for between, exponent in grown.items():
        print(f"{between} GPUs: grows with the power {exponent:.2f}")
    name = "_".join(["scale", *([] if asked.gpus == GPUS else map(str, asked.gpus))])
    keep(name, {"machine": machine(), "sizes": sizes, "exponents": grown}, record=asked.record)
    return told(_bars(sizes))


def _measure(size: Size, times: int) -> dict[str, list[dict[str, float]]]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "store.duckdb"
        _land(path, size, 0, 2, first=True)
        start = _pass(path, 1)
        print(f"{size.gpus:,} GPUs, the first hour: {start}", flush=True)
        hours = []
        for number in range(1, times + 1):
            _land(path, size, number, 2 + number)
            hours.append(_pass(path, number + 1))
            print(f"{size.gpus:,} GPUs, hour {number}: {hours[-1]}", flush=True)
        _land(path, size, 0, 3 + times, hosts=range(LATE_HOST, LATE_HOST + 1))
        late = _pass(path, times + 1)
        print(f"{size.gpus:,} GPUs, a late hour of one host: {late}", flush=True)
        return {"first": [start], "hours": hours, "late": [late]}


def _land(path: Path, size: Size, number: int, batch: int, hosts: range | None = None, *, first: bool = False) -> None:
    lake = default_lake(path)
    if lake.folder is not None:
        lake.folder.mkdir(parents=True, exist_ok=True)
    with Store.open(path, lake=lake, memory_limit="4GB") as store, store.turn, store.session() as session:
        if first:
            found(session, size)
        hour(session, size, number, batch, hosts)


def _pass(path: Path, hours: int) -> dict[str, float]:
    until_us = 1_762_732_800_000_000 + hours * 3_600_000_000
    words = [sys.executable, "-c", _PASS, str(path), str(until_us)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def _exponents(seconds: dict[int, float]) -> dict[str, float]:
    sizes = sorted(seconds)
    return {
        f"{small:,} to {large:,}": round(math.log(seconds[large] / seconds[small]) / math.log(large / small), 2)
        for small, large in pairwise(sizes)
    }


def _bars(sizes: dict[int, dict[str, list[dict[str, float]]]]) -> dict[str, bool]:
    if BAR_GPUS not in sizes:
        return {}
    hours = sizes[BAR_GPUS]["hours"]
    best, most = min(run["seconds"] for run in hours), max(run["peak_megabytes"] for run in hours)
    return {
        f"an hour of {BAR_GPUS:,} GPUs in {best} s (bar: {BAR_SECONDS})": best <= BAR_SECONDS,
        f"in {most} MB (bar: {BAR_MEGABYTES})": most <= BAR_MEGABYTES,
    }


if __name__ == "__main__":
    sys.exit(main())
