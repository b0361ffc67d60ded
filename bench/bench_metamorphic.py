"""What is said of a run must not hang on what is no matter: labelled runs, judged as they are and changed.

A seed is bench-truth's, without eight ranks every second (four fifths of its samples): 700 runs, each judged as it is
and after every change that concerns it (bench/truth/transformed.py). No change may make another cause at high
confidence; where nothing was lost, no state may move by more than three points of the run's GPU time.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from analyzer.analysis import analyze
from analyzer.settings.settings import Settings
from analyzer.states import booking
from bench.machine import add_record, keep, machine, quantile, told
from bench.truth.archetypes.registry import ARCHETYPES
from bench.truth.campaign import MEMORY
from bench.truth.design import SAMPLINGS, cells
from bench.truth.draw import Cell
from bench.truth.kinds import Label
from bench.truth.rows import Rows, end_of_day, land, rows_of
from bench.truth.runs import SimulatedRun
from bench.truth.score import POSITIVE
from bench.truth.transformed import TRANSFORMATIONS
from collector.store.database import Store

PAIRS = 10_000
MOVED = 0.03  # of a run's GPU time
Fleet = tuple[int, bool, int]  # seed, with GPM or without, seconds between samples


def _shares() -> "defaultdict[Any, float]":
    return defaultdict(float)


@dataclass
class Verdict:
    """What one run's GPU time is booked as, in shares of it."""

    states: defaultdict[str, float] = field(default_factory=_shares)
    avoidable: defaultdict[Label, float] = field(default_factory=_shares)
    sure: defaultdict[Label, float] = field(default_factory=_shares)  # of them, at high confidence

    @property
    def top(self) -> Label | None:
        """The cause that takes most of it, where that is a loss at all."""
        label = max(self.avoidable, key=self.avoidable.__getitem__, default=None)
        return None if label is None or self.avoidable[label] < POSITIVE else label


@dataclass(frozen=True, slots=True)
class Pair:
    """One run as it is and changed."""

    run: str
    moved: float  # the most that a state's share did
    state: str  # which
    surer: bool  # of a loss that it was less sure of
    before: Label | None
    after: Label | None
    changed: bool  # to another cause at high confidence


Pairs = dict[str, list[Pair]]  # by transformation


def main() -> int:
    """Judge, compare, print and keep; 1 where a bar is not kept."""
    asked = _asked()
    before, began, pairs = machine(), time.monotonic(), Pairs()
    fleets: list[Fleet] = list(product(asked.seed or [1], (True, False), SAMPLINGS))
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        made = [pool.submit(run_fleet, fleet, asked.archetype, asked.only or [*TRANSFORMATIONS]) for fleet in fleets]
        for future in made:
            for name, found in future.result().items():
                pairs[name] = pairs.get(name, []) + found
    figures = {name: _figures(pairs[name]) for name in TRANSFORMATIONS if pairs.get(name)}
    print("", *_lines(figures), sep="\n")
    named = {name: [asdict(pair) for pair in _named(name, found)] for name, found in pairs.items()}
    seconds = round(time.monotonic() - began)
    keep(
        "metamorphic",
        {"machine": before, "fleets": fleets, "seconds": seconds, "transformations": figures, "named": named},
        record=asked.record,
    )
    return told(_bars(figures))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, action="append", default=[])
    parser.add_argument("--archetype", action="append", default=[], choices=sorted(ARCHETYPES))
    parser.add_argument("--only", action="append", default=[], choices=TRANSFORMATIONS, metavar="TRANSFORMATION")
    parser.add_argument("--jobs", type=int, default=1, help="fleets at a time, of four a seed")
    add_record(parser)
    return parser.parse_args()


def run_fleet(fleet: Fleet, kinds: Sequence[str], names: Sequence[str]) -> Pairs:
    """Judge a fleet as it is, then once after each change."""
    seed, gpm, every = fleet
    own = [cell for cell in cells(seed, kinds) if (cell.gpm, cell.every) == (gpm, every) and not _is_costly(cell)]
    made = [run for cell in own for main in [SimulatedRun.make(cell)] for run in (main, *main.beside())]
    plain = [rows_of(run) for run in made]  # once: each time would draw other noise
    found: Pairs = {}
    before = _verdicts(plain)
    for name in names:
        way, began = TRANSFORMATIONS[name], time.monotonic()
        changed = [way.rows(run, rows) for run, rows in zip(made, plain, strict=True)]
        if any(changed):
            after = _verdicts([rows or as_was for rows, as_was in zip(changed, plain, strict=True)])
            found[name] = [
                paired(run, before[run.run_id], after[way.run_id(run.run_id)])
                for run, rows in zip(made, changed, strict=True)
                if rows is not None
            ]
            changes = [_said(pair) for pair in _named(name, found[name])]
            head = f"{fleet} {name}: {time.monotonic() - began:.0f} s"
            print(head, *_lines({name: _figures(found[name])})[1:], *changes, sep="\n  ", flush=True)
    return found


def _verdicts(runs: Sequence[Rows]) -> Mapping[str, Verdict]:
    # In a file: a database in memory that must give way under its limit ends in an assertion of DuckDB 1.5.
    with (
        tempfile.TemporaryDirectory() as directory,
        Store.open(Path(directory) / "store.duckdb", memory_limit=MEMORY, threads=1) as store,
    ):
        land(store, runs)
        analyze(store, Settings(memory_limit=MEMORY, threads=1), now_us=end_of_day())
        with store.session() as session:
            rows = session.rows(
                """
                SELECT run_id, state, cause, confidence,
                    sum(milliseconds) / sum(sum(milliseconds)) OVER (PARTITION BY run_id)
                FROM ledger WHERE run_id IS NOT NULL GROUP BY run_id, state, cause, confidence
                """
            )
    found: dict[str, Verdict] = defaultdict(Verdict)
    for run_id, state, cause, confidence, share in rows:
        found[run_id].states[state] += share
        if booking(state, cause).klass == "avoidable":
            found[run_id].avoidable[state, cause] += share
            found[run_id].sure[state, cause] += share * (confidence == "high")
    return found


def paired(run: SimulatedRun, before: Verdict, after: Verdict) -> Pair:
    """Return what differs. Two causes of nearly the same share may change places: another cause has grown."""
    moves = {state: abs(after.states[state] - before.states[state]) for state in before.states | after.states}
    state, top = max(moves, key=moves.__getitem__), after.top
    surer = any(share - before.sure[label] > MOVED for label, share in after.sure.items())
    grown = top is not None and after.sure[top] - before.avoidable[top] > MOVED
    return Pair(_name(run), moves[state], state, surer, before.top, top, top != before.top and grown)


def _name(run: SimulatedRun) -> str:
    cell = run.cell
    step = "no steps" if cell.step is None else f"steps of {cell.step} s"
    of = f"{cell.ranks} x {run.draw.machine.sku} every {cell.every} s{', dirty' if cell.dirty else ''}"
    return f"{cell.archetype}, {step}, {of}, seed {cell.seed}"


def _is_costly(cell: Cell) -> bool:
    return cell.ranks > 1 and cell.every == 1


def _figures(pairs: Sequence[Pair]) -> dict[str, float]:
    moved = sorted(pair.moved for pair in pairs)
    return {
        "pairs": len(pairs),
        "changed": sum(pair.changed for pair in pairs),
        "surer": sum(pair.surer for pair in pairs),
        "median": round(quantile(moved, 0.5), 4),
        "p99": round(quantile(moved, 0.99), 4),
        "over": sum(share > MOVED for share in moved),
    }


def _lines(figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    head = f"{'':20}{'pairs':>8}{'other cause':>13}{'surer':>8}{'moved, median':>15}{'p99':>8}{'over 3 points':>15}"
    return [head] + [
        f"{name:20}{one['pairs']:8,}{one['changed']:13}{one['surer']:8}{one['median']:15.1%}{one['p99']:8.1%}{one['over']:15}"
        for name, one in figures.items()
    ]


def _named(name: str, pairs: Sequence[Pair]) -> list[Pair]:
    """Return those that break a bar."""
    lossless = not TRANSFORMATIONS[name].loses
    return [pair for pair in pairs if pair.changed or (lossless and pair.moved > MOVED)]


def _said(pair: Pair) -> str:
    before, after = ("/".join(map(str, label)) if label else "no loss" for label in (pair.before, pair.after))
    return f"{pair.run}: {before} > {after}, {pair.state} moved {pair.moved:.1%}"


def _bars(figures: Mapping[str, Mapping[str, float]]) -> dict[str, bool]:
    changed = sum(one["changed"] for one in figures.values())
    over = sum(one["over"] for name, one in figures.items() if not TRANSFORMATIONS[name].loses)
    pairs = sum(one["pairs"] for one in figures.values())
    return {
        f"{pairs:,.0f} pairs (bar 10,000)": pairs >= PAIRS,
        f"another cause at high confidence: {changed} (bar 0)": changed == 0,
        f"a state moved by over 3 points, nothing lost: {over} (bar 0)": over == 0,
    }


if __name__ == "__main__":
    sys.exit(main())
