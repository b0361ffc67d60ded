"""Whether bills of fifteen dialects say what they were made of: python -m bench.bench_dialects [--bills 10000].

Each bill is written from a truth of GPU-hours and prices (tests/analyzer/finops/bill_dialects.py), read, priced, and
held against ledgers of that truth and of others. It must say the truth to the cent, or be refused by line and column.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from bench.machine import add_record, keep, machine, told
from tests.analyzer.finops.bill_dialects import DIALECTS, faults, make_bill

_SHOWN = 10


def main() -> int:
    """Generate, read, compare, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bills", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    add_record(parser)
    options = parser.parse_args()
    bills: Counter[str] = Counter()
    wrong: list[str] = []
    lines, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.bills):
            dialect = DIALECTS[number % len(DIALECTS)]
            random = Random(f"{options.seed} {number}")
            made = make_bill(random, dialect, Path(folder))
            wrong += [f"bill {number}, {dialect.name}: {fault}" for fault in faults(random, made)]
            bills[dialect.name] += 1
            lines += made.lines
            if (number + 1) % 1_000 == 0:
                print(f"{number + 1:,} bills, {lines:,} lines, {len(wrong)} faults", flush=True)
    print(*wrong[:_SHOWN], sep="\n")
    found = {"bills": dict(bills), "lines": lines, "wrong": wrong[:_SHOWN]}
    about = {"machine": machine(), "seed": options.seed, "seconds": round(time.monotonic() - began)}
    keep("dialects", about | found, record=options.record)
    return told({f"{sum(bills.values()):,} bills in fifteen dialects say the truth, or are refused": not wrong})


if __name__ == "__main__":
    sys.exit(main())
