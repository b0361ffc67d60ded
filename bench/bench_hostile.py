"""One host's batches of every kind beside nine honest hosts: what of the nine moves, and what became of the batches."""

import argparse
import random
import sys
import time
from collections import Counter

from bench.machine import add_record, keep, machine, told
from collector.registry import open_registry
from tests.collector.access.hostile_host import hostile, of_others, registered, site, takes

CASES, AT_ONCE = 10_000, 2_000


def main() -> int:
    """Try all cases, some thousand beside one site at a time."""
    parser = argparse.ArgumentParser(prog="make bench-hostile", description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES)
    add_record(parser)
    asked = parser.parse_args()
    began, aside, moved = time.monotonic(), Counter[str](), 0
    for seed in range(-(-asked.cases // AT_ONCE)):
        moved += _moved(seed, min(AT_ONCE, asked.cases - seed * AT_ONCE), aside)
    rows = sum(aside.values())
    print(f"{asked.cases:,} batches: {rows:,} rows put aside, {moved} rows of others differ")
    print("  " + ", ".join(f"{table} {count:,}" for table, count in aside.most_common()))
    seconds = round(time.monotonic() - began, 1)
    figures = {"cases": asked.cases, "aside": dict(aside), "moved_rows": moved, "seconds": seconds}
    keep("hostile", {"machine": machine(), **figures}, record=asked.record)
    return told({"nothing of other hosts moves": moved == 0, "what is refused is counted": rows > 0})


def _moved(seed: int, cases: int, aside: Counter[str]) -> int:
    """Return how many rows and reports of the nine and their runs differ once these batches are taken."""
    draw = random.Random(seed)
    with open_registry(None) as registry:
        book = registered(registry)
        alone, beside = site(book), site(book)
        alone.analyze()
        for case in range(cases):
            aside.update(takes(beside, book, hostile(draw), case))
            if case == cases // 2:
                beside.analyze()
        beside.analyze()
        right, found = of_others(alone), of_others(beside)
        alone.store.close()
        beside.store.close()
    return sum(len(set(map(repr, right[name])) ^ set(map(repr, found[name]))) for name in right)


if __name__ == "__main__":
    sys.exit(main())
