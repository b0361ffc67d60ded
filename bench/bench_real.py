"""What the ledger makes of other people's recordings, and how like Seren the demo is: python bench/bench_real.py.

Recordings are in tests/data. What was published of them is compared only when the ledger is finished. Ends with 1 where
a bar is not kept.
"""

import argparse
import tempfile
from pathlib import Path

from bench.demo_store import demo_fleet, fill
from bench.machine import ROOT, add_record, keep, machine
from bench.truth.real import files, hpe, kineto, seren, submitters
from bench.truth.real.checks import Check, missed
from bench.truth.real.table import put, table
from collector.store.database import Store

README = ROOT / "bench" / "README.md"


def main() -> int:
    """Score, print and keep; what is recorded is written into the README too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", type=Path, help="a store that holds the demo's week already; else it is simulated")
    parser.add_argument("--seed", type=int, default=1, help="of the week that is simulated")
    add_record(parser)
    asked = parser.parse_args()
    before = machine()
    found = {
        "kineto": kineto.score(),
        "hpe": hpe.score(),
        "submitters": submitters.score(),
        "seren": _demo(asked.demo, asked.seed),
    }
    checks = [check for _, its_own in found.values() for check in its_own]
    kept: dict[str, object] = {"machine": before, **{name: figures for name, (figures, _) in found.items()}}
    kept["checks"] = [check.as_json() for check in checks]
    keep("real", kept, record=asked.record)
    if asked.record:
        README.write_text(put(README.read_text(), table(kept)))
    print(table(kept), *(check.line() for check in checks), sep="\n")
    return 1 if missed(checks) else 0


def _demo(path: Path | None, seed: int) -> tuple[dict[str, object], list[Check]]:
    with tempfile.TemporaryDirectory() as directory, Store.open(path or Path(directory) / "demo.duckdb") as store:
        if path is None:
            fill(store, demo_fleet(seed, 60, 10))
        with store.session() as session:
            return seren.score(session, files.seren())


if __name__ == "__main__":
    raise SystemExit(main())
