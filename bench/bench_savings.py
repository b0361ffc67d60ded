"""Whether recommendations save what they say: applied on the simulated site. python -m bench.bench_savings.

For each seed the demo's week is made, landed, analysed and advised on as by `gpuledger recommendations`; each
recommendation of five GPU-hours a week and more is applied alone in the simulator, whose physics know nothing of the
predictor; what the same work then held less is compared with P20-P80 and P5-P95. The first seeds' changed weeks are
analysed as well. Predictors may be set by seeds 101 to 150 alone (`--first 101`); the bars are judged on 1 to 50.
What a seed gave is kept as it comes: cut off and started again with the same code, it goes on with the seeds that are
missing.
"""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.machine import add_record, keep, machine, told
from bench.savings.kept import ROOT, Kept, code_digest
from bench.savings.seed import as_row, run_seed
from bench.savings.tables import by_change, by_kind, share_inside, summary, table

SEEDS, LEAST_KINDS = 50, 6
KEPT = ROOT / ".tmp" / "savings"
NARROW, WIDE = 0.60, 0.90


def main() -> int:
    """Apply, compare, print and keep."""
    asked = _asked()
    before, rows, seconds = machine(), [], []
    for trials, took in _seeds(asked):
        rows += trials
        seconds.append(round(took, 1))
        seed = trials[0]["seed"] if trials else "?"
        print(f"seed {seed}: {len(trials)} recommendations, {took:.0f} s", flush=True)
    found = _found(before, rows, seconds, asked.every)
    print("\n" + "\n".join(table(by_change(rows))) + "\n")
    print("\n".join(table(by_kind(rows))) + "\n")
    keep("savings", found, record=asked.record)
    return told(bars(rows))


def bars(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Return each bar with its figure, and whether it is kept; what is not known is not kept."""
    narrow, wide = share_inside(rows, "p20", "p80"), share_inside(rows, "p5", "p95")
    kinds = len(by_kind(rows))
    return {
        f"kinds applied: {kinds} (bar >= {LEAST_KINDS})": kinds >= LEAST_KINDS,
        f"inside P20-P80: {_told(narrow)} (bar >= {NARROW:.0%})": narrow is not None and narrow >= NARROW,
        f"inside P5-P95: {_told(wide)} (bar >= {WIDE:.0%})": wide is not None and wide >= WIDE,
    }


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="the first seed; predictors are set by 101 to 150")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--second", type=int, default=5, help="so many seeds' changed weeks are analysed as well")
    parser.add_argument("--every", type=int, default=60, help="beat of the samples in seconds")
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time; each takes a core and some 2 GB")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where each seed's trials are kept to go on from")
    parser.add_argument("--anew", action="store_true", help="make every seed anew, whatever is kept")
    add_record(parser)
    asked = parser.parse_args()
    if asked.record and (asked.first != 1 or asked.seeds < SEEDS):
        parser.error(f"--record takes seeds 1 to {SEEDS}, on which the bars are judged")
    return asked


def _seeds(asked: argparse.Namespace) -> Iterator[tuple[list[dict[str, Any]], float]]:
    wanted = range(asked.first, asked.first + asked.seeds)
    kept = Kept(asked.kept, code_digest(), asked.every)
    one = partial(_one, kept=kept, second_until=asked.first + asked.second, anew=asked.anew)
    if asked.jobs == 1:
        yield from map(one, wanted)
        return
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        yield from pool.map(one, wanted)


def _one(seed: int, *, kept: Kept, second_until: int, anew: bool) -> tuple[list[dict[str, Any]], float]:
    second = seed < second_until
    if not anew and (found := kept.read(seed, second=second)) is not None:
        return found
    trials, seconds = run_seed(seed, kept.every_seconds, second=second)
    rows = [as_row(trial) for trial in trials]
    kept.write(seed, rows, seconds, second=second)
    return rows, seconds


def _found(before: dict[str, object], rows: list[dict[str, Any]], seconds: list[float], every: int) -> dict[str, Any]:
    return {
        "machine": before,
        "every_seconds": every,
        "seconds_of_each_seed": seconds,
        "bars": bars(rows),
        "all": {"inside_p20_p80": share_inside(rows, "p20", "p80"), "inside_p5_p95": share_inside(rows, "p5", "p95")},
        "by_kind": {name: summary(each) for name, each in by_kind(rows).items()},
        "by_change": {name: summary(each) for name, each in by_change(rows).items()},
        "not_applied": sorted({f"{row['kind']} · {row['cause']}" for row in rows if row["change"] is None}),
        "trials": rows,
    }


def _told(share: float | None) -> str:
    return "not known" if share is None else f"{share:.1%}"


if __name__ == "__main__":
    sys.exit(main())
