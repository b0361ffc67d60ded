"""How long a week takes from samples to the ledger, and in how much memory: python -m bench.bench_analyzer.

11.6 million GPU samples (192 GPUs, a week at 10 s) of the demo fleet, with everything beside them, in one store. The
analysis runs in a process of its own, whose peak memory is the operating system's own count. State cost as it grows:
the same fleet sampled every 60 s (a sixth of the rows) is timed beside it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.demo_store import demo_fleet, fill, prices_beside
from bench.machine import add_record, keep
from collector.store.database import Store

# What is measured, from the opened store to the last commit; printed as JSON.
_ANALYSE = """
import json, re, sys, time
from pathlib import Path
from analyzer.analysis import analyze
from analyzer.settings.settings import Settings
from collector.store.database import Store
settings = Settings(prices=Path(sys.argv[2]))
before = time.process_time()
with Store.open(Path(sys.argv[1]), memory_limit=settings.memory_limit, threads=settings.threads) as store:
    began = time.monotonic()
    done = analyze(store, settings, now_us=4 * 10**15)
    seconds = time.monotonic() - began
print(json.dumps({"seconds": round(seconds, 2), "cpu_seconds": round(time.process_time() - before, 2),
    "peak_megabytes": int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024,
    "rows": done.rows}))
"""
_CLEAN = (
    "ledger",
    "ledger_hours",
    "adjustments",
    "runs",
    "run_windows",
    "run_timeline",
    "run_activity",
    "run_doings",
    "run_gpus",
    "run_loads",
    "checkpoints",
    "in_rack_rates",
    "not_evaluated",
    "analysis",
)


def main() -> None:
    """Fill, analyse several times, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=3)
    add_record(parser)
    asked = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    kept: dict[str, object] = {"machine": machine}
    for every in (60, 10):
        kept[f"every {every} s"] = _measure(every, asked.times)
    keep("analyzer", kept, record=asked.record)


def _measure(every: int, times: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "store.duckdb"
        with Store.open(path) as store:
            samples = fill(store, demo_fleet(1, every))
        prices = prices_beside(Path(directory))
        runs = []
        for _ in range(times):
            _forget(path)
            answer = subprocess.run([sys.executable, "-c", _ANALYSE, path, prices], check=True, capture_output=True)
            runs.append(json.loads(answer.stdout) | {"load": round(os.getloadavg()[0], 1)})
            print(f"{samples:,} GPU samples, every {every} s: {runs[-1]}", flush=True)
        return {"gpu_samples": samples, "runs": runs}


def _forget(path: Path) -> None:
    """Take away what an earlier pass made, so that each begins anew."""
    with Store.open(path) as store, store.session() as session:
        for table in _CLEAN:
            session.execute(f"DELETE FROM {table}")
    time.sleep(1)


if __name__ == "__main__":
    main()
