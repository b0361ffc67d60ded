"""How often a cause was right, by how probable it was told to be: python -m bench.bench_calibration.

Runs of both generators, of seeds that no number was tuned on; the windows are made once (bench/causes/labelled.py).
`--record` writes what docs/detectors.md shows.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise

from analyzer.ledger.causes.witnesses import BOOKED_PERMILLE, DIGEST, SUSPECTED_PERMILLE
from bench.causes.judged import OF_INPUT, Told, told
from bench.causes.labelled import published, simulated
from bench.machine import add_record, keep, machine

BINS = (
    SUSPECTED_PERMILLE,
    BOOKED_PERMILLE,
    750,
    850,
    950,
    980,
    1001,
)  # permille of the posterior: from, below the next
GENERATORS = {"step by step (bench/truth)": simulated, "after publications (bench/published)": published}


def main() -> int:
    """Make or read the windows, count, print and keep."""
    asked = _asked()
    before = machine()
    rows = []
    for name, seeds in ((name, getattr(asked, made.__name__)) for name, made in GENERATORS.items()):
        seen = [list(told([run])) for seed in seeds for run in GENERATORS[name](seed)]
        rows += [{"runs": name, "seeds": seeds, **row} for row in counted(seen)]
    for row in rows:
        share = f"{100 * row['right'] / row['windows']:.0f}%" if row["windows"] else "-"
        print(f"{row['runs']:40}{row['causes']:10}{row['from'] / 10:>7.0f}%{row['windows']:>8}{share:>6}")
    keep("calibration", {"machine": before, "table": DIGEST, "rows": rows}, record=asked.record)
    return 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulated", type=int, nargs="*", default=[3, 4], help="seeds of bench/truth")
    parser.add_argument("--published", type=int, nargs="*", default=[5, 6], help="seeds of bench/published")
    add_record(parser)
    return parser.parse_args()


def counted(runs: Iterable[Sequence[Told]]) -> list[dict[str, object]]:
    """Return a row a bin: of inputs, which may be booked, and of others, which are suspected alone."""
    named = [[one for one in run if one.cause is not None] for run in runs]
    rows: list[dict[str, object]] = []
    for word, is_input in (("inputs", True), ("others", False)):
        for low, high in pairwise(BINS):
            of_runs = [
                [one for one in run if (one.cause in OF_INPUT) is is_input and low <= one.share < high] for run in named
            ]
            inside = [one for run in of_runs for one in run]
            rows.append(
                {
                    "causes": word,
                    "from": low,
                    "to": min(high, 1000),
                    "of_runs": sum(map(bool, of_runs)),
                    "windows": len(inside),
                    "said": sum(one.share for one in inside),
                    "right": sum(one.is_right for one in inside),
                }
            )
    return rows


if __name__ == "__main__":
    sys.exit(main())
