"""How right the ledger is on runs made from published measurements, by another hand: python -m bench.bench_published.

A seed is 108 runs of 57 kinds in one store: see bench/README.md. `--kind NAME` picks kinds, `--jobs` runs seeds beside
one another; `--keep FOLDER` leaves tables and stores there.
"""

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from bench.machine import ROOT, add_record, keep, machine, told
from bench.published.product import run_seed
from bench.published.registry import KINDS
from bench.published.score import Scored, kept, kind_lines, put, score_lines, scores, section

README = ROOT / "bench" / "README.md"


def main() -> int:
    """Make, book, score, print and keep; 1 where a bar is not kept. What is recorded is written into the README too."""
    asked = _asked()
    before, seeds = machine(), asked.seed or [1]
    runs: list[tuple[int, Scored]] = []
    seconds: dict[int, dict[str, int]] = {}
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        made = [pool.submit(_seed, seed, asked.kind, asked.keep) for seed in seeds]
        for seed, future in zip(seeds, made, strict=True):
            scored, took = future.result()
            seconds[seed] = {name: round(spent) for name, spent in took.items()}
            print(f"seed {seed}: {len(scored)} runs, seconds: {seconds[seed]}", flush=True)
            runs += [(seed, run) for run in scored]
    figures, table = scores([run for _, run in runs]), kind_lines([run for _, run in runs])
    print("", *table, "", *score_lines(figures), "", sep="\n")
    found = {"machine": before, "seeds": seeds, "seconds": seconds, "scores": figures, "kinds": table}
    if asked.record:
        README.write_text(put(README.read_text(), section(found)))
    else:
        found["runs"] = [{"seed": seed, **asdict(run)} for seed, run in runs]
    keep("published", found, record=asked.record)
    return told(kept(figures))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, action="append", default=[])
    parser.add_argument("--kind", action="append", default=[], choices=sorted(KINDS))
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time")
    parser.add_argument("--keep", type=Path, help="leave each seed's tables and store in a new folder here")
    add_record(parser)
    return parser.parse_args()


def _seed(seed: int, kinds: list[str], place: Path | None) -> tuple[list[Scored], dict[str, float]]:
    if place is not None:
        (place / f"seed{seed}").mkdir(parents=True)  # an old store would be asked too
        return run_seed(seed, kinds, place / f"seed{seed}")
    with tempfile.TemporaryDirectory() as folder:
        return run_seed(seed, kinds, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
