"""How right the ledger is: runs made step by step, whose labels the analyzer never sees. python -m bench.bench_truth.

Twenty seeds of 892 runs of two hours, of 51 kinds: see bench/README.md. `--seeds 2` shortens, `--archetype NAME` picks
kinds; the README's table is written with `--record` alone. `python -m bench.truth.demo` compares the demo's week.
"""

import argparse
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context

from bench.machine import add_record, keep, machine, told
from bench.truth.archetypes.registry import ARCHETYPES
from bench.truth.campaign import Seed, added, run_seed
from bench.truth.controls import controls
from bench.truth.kept import NAME, Campaign
from bench.truth.scores import UNCOUNTED, is_sub_second
from bench.truth.tables import archetype_table, cause_table, confusion_table, printed, score_table

SEEDS = 20


def main() -> int:
    """Make, book, score, print and keep; what is recorded is written into the README too."""
    asked = _asked()
    before = machine()
    seeds = []
    for seed in _seeds(asked.seed or range(1, asked.seeds + 1), asked.archetype, asked.jobs, both=asked.both):
        seeds.append(seed)
        print(f"seed {seed.seed}: {seed.runs} runs, {seed.samples:,} samples of GPUs, {seed.seconds}", flush=True)
    about = [{name: value for name, value in asdict(seed).items() if name != "tallies"} for seed in seeds]
    held = {} if asked.archetype or asked.seed else controls()
    found = Campaign(before, seeds[0].rules, about, held, added(seeds))
    _show(found)
    keep(NAME, found.text(), record=asked.record)
    if asked.record:
        found.write_section()
    return told({bar: held for bar, held in found.held().items() if not (asked.archetype and UNCOUNTED in bar)})


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument(
        "--seed", type=int, action="append", default=[], help="this one: rules are tuned on 101 and 102"
    )
    parser.add_argument("--archetype", action="append", default=[], choices=sorted(ARCHETYPES))
    parser.add_argument("--both", action="store_true", help="each cell clean and dirty in every seed: twice the runs")
    parser.add_argument("--jobs", type=int, default=1, help="seeds at a time; each takes a core and some 3 GB")
    add_record(parser)
    return parser.parse_args()


def _seeds(seeds: Iterable[int], names: list[str], jobs: int, *, both: bool) -> Iterable[Seed]:
    if jobs == 1:
        yield from (run_seed(seed, names, both=both) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for made in [pool.submit(run_seed, seed, names, both=both) for seed in seeds]:
            yield made.result()


def _show(found: Campaign) -> None:
    slow = [tally for key, tally in found.tallies.items() if not is_sub_second(key)]
    print("\n" + printed(score_table(found.tallies)))
    print("\nGPU-hours, steps of 1 s and more and runs without steps:\n" + printed(confusion_table(slow)))
    print("\nruns found starved, by cause:\n" + printed(cause_table(found.tallies.values())))
    print("\n" + printed(archetype_table(found.tallies)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
