"""How right the ledger is on runs made from published measurements, by another hand: python -m bench.bench_published.

One seed of some hundred runs of 56 kinds in one store: see bench/README.md. `--kind NAME` picks kinds, `--jobs` runs
seeds beside one another; `--keep FOLDER` leaves tables and store there.
"""

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.machine import add_record, keep, machine, told
from bench.published.product import run_seed
from bench.published.registry import KINDS
from bench.published.score import Scored, kept, kind_lines, score_lines, scores


def main() -> int:
    """Make, book, score, print and keep; 1 where a bar is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, action="append", default=[])
    parser.add_argument("--kind", action="append", default=[], choices=sorted(KINDS))
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time")
    parser.add_argument("--keep", type=Path, help="leave each seed's tables and store in a folder here")
    add_record(parser)
    asked = parser.parse_args()
    before, found = machine(), []
    seeds = asked.seed or [1]
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        for seed, (runs, took) in zip(
            seeds, pool.map(_seed, seeds, [asked.kind] * len(seeds), [asked.keep] * len(seeds)), strict=True
        ):
            print(
                f"seed {seed}: {len(runs)} runs, {', '.join(f'{name} {took[name]:.0f} s' for name in took)}", flush=True
            )
            found += [(seed, took, run) for run in runs]
    runs = [run for _, _, run in found]
    figures = scores(runs)
    print("", *kind_lines(runs), "", *score_lines(figures), "", sep="\n")
    kept_runs: list[dict[str, Any]] = [{"seed": seed, **asdict(run)} for seed, _, run in found]
    keep("published", {"machine": before, "seeds": seeds, "scores": figures, "runs": kept_runs}, record=asked.record)
    return told(kept(figures))


def _seed(seed: int, kinds: list[str], place: Path | None) -> tuple[list[Scored], dict[str, float]]:
    if place is not None:
        return run_seed(seed, kinds, place / f"seed{seed}")
    with tempfile.TemporaryDirectory() as folder:
        return run_seed(seed, kinds, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
