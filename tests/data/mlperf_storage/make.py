"""Fold the table of 42,825 steps to a line a rank and epoch: python tests/data/mlperf_storage/make.py STEPS.csv.gz.

Nothing is rounded: times are whole microseconds in the source too. `rest_us` is a step's wall time less its load.
"""

import csv
import gzip
import lzma
import sys
from collections import defaultdict
from pathlib import Path

FOLDED = Path(__file__).parent / "hpe_unet3d_h100_run1_steps.csv.xz"


def fold(source: Path, target: Path = FOLDED) -> int:
    """Write the folded table and return how many steps it holds."""
    found: dict[tuple[int, str, int], list[tuple[int, int, int]]] = defaultdict(list)
    with gzip.open(source, "rt", newline="") as file:
        for row in csv.DictReader(file):
            load, whole = _microseconds(row["load_s"]), _microseconds(row["proc_s"])
            key = int(row["rank"]), row["hostname"], int(row["epoch"])
            found[key].append((int(row["step"]), load, whole - load))
    with lzma.open(target, "wt", newline="", preset=9 | lzma.PRESET_EXTREME) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("rank", "host", "epoch", "load_us", "rest_us"))
        for key, steps in sorted(found.items()):
            steps.sort()
            assert [step for step, _, _ in steps] == list(range(1, len(steps) + 1)), f"{key} has a hole"
            table.writerow((*key, " ".join(str(load) for _, load, _ in steps), " ".join(str(r) for _, _, r in steps)))
    return sum(map(len, found.values()))


def _microseconds(seconds: str) -> int:
    whole, _, part = seconds.partition(".")
    return int(whole) * 1_000_000 + int(part.ljust(6, "0"))


if __name__ == "__main__":
    print(fold(Path(sys.argv[1])), "steps")
