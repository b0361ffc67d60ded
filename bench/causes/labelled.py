"""Ten-minute windows of generated runs with what is true of each: made once, kept in bench/unrecorded.

The files hold what was counted and what was true, no judgement: the table is asked anew each time. Who changes how
windows are counted removes them.
"""

import gzip
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from analyzer.analysis import analyze
from analyzer.ledger.causes.witnesses import CAUSES, INPUTS
from analyzer.ledger.windows import RunWindow, Verdict
from analyzer.settings.settings import Settings
from bench.machine import UNRECORDED
from bench.published import product
from bench.published.registry import runs as published_runs
from bench.published.setting import Story
from bench.published.site import BASE
from bench.truth.campaign import MEMORY, price_file
from bench.truth.design import cells
from bench.truth.draw import Cell
from bench.truth.rows import end_of_day, fill
from bench.truth.runs import SimulatedRun
from collector.store.database import Store
from collector.store.session import Session

THIN = 3  # each third cell of a kind: its other ones differ in step, ranks and sampling, not in what starves it
POSITIVE = 0.05  # of the held time of a window: TF Profiler calls a run input-bound from 5% on
WINDOW_SECONDS = 600
_STARVED = "starved/"
NEVER_BOOKED = tuple(sorted(set(CAUSES) - INPUTS))
_OURS = {"video_decoder": "decoder"}  # what the table calls it


@dataclass(frozen=True, slots=True)
class LabelledWindow:
    """One window: `causes` are those that may rightly be told, none where it waits for no input.

    `suspects` may rightly be named beside a loss that nobody books: as the generator says, or, where it has no name for
    them, all of them where nothing is waited for. `is_open` is false of what is judged otherwise: a service, a session,
    a hang, a run bound by its launches.
    """

    window: RunWindow
    causes: tuple[str, ...]
    suspects: tuple[str, ...]
    is_open: bool


@dataclass(frozen=True, slots=True)
class LabelledRun:
    """The windows of one run in order of time, and its kind."""

    kind: str
    windows: Sequence[LabelledWindow]


def simulated(seed: int, names: Sequence[str] = ()) -> list[LabelledRun]:
    """Return the runs of a seed of bench/truth."""
    return _kept(f"windows_truth_{'_'.join([str(seed), *names])}", _simulated(seed, names))


def published(seed: int, names: Sequence[str] = ()) -> list[LabelledRun]:
    """Return the runs of a seed of the second generator."""
    return _kept(f"windows_published_{'_'.join([str(seed), *names])}", _published(seed, names))


def _kept(name: str, made: Iterable[LabelledRun]) -> list[LabelledRun]:
    path = UNRECORDED / f"{name}.jsonl.gz"
    if not path.exists():
        lines = [_line(run) for run in made]
        UNRECORDED.mkdir(exist_ok=True)
        with gzip.open(path, "wt") as out:
            out.writelines(lines)
    with gzip.open(path, "rt") as kept:
        return [_run(line) for line in kept]


def _line(run: LabelledRun) -> str:
    windows = [(each.window.as_json(), each.causes, each.suspects, each.is_open) for each in run.windows]
    return json.dumps([run.kind, windows]) + "\n"


def _run(line: str) -> LabelledRun:
    kind, windows = json.loads(line)
    return LabelledRun(
        kind,
        [
            LabelledWindow(RunWindow.from_json(told), tuple(causes), tuple(suspects), is_open)
            for told, causes, suspects, is_open in windows
        ],
    )


def _simulated(seed: int, names: Sequence[str]) -> Iterator[LabelledRun]:
    chosen = [cell for _, of_kind in groupby(cells(seed, names), key=_kind) for cell in list(of_kind)[seed % 2 :: THIN]]
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(prices=price_file(Path(directory)), memory_limit=MEMORY, threads=1)
        for number, (_, fleet) in enumerate(groupby(sorted(chosen, key=_fleet), key=_fleet)):
            made = [run for cell in fleet for own in [SimulatedRun.make(cell)] for run in (own, *own.beside())]
            with Store.open(Path(directory) / f"{number}.duckdb", memory_limit=MEMORY, threads=1) as store:
                fill(store, made)
                analyze(store, settings, now_us=end_of_day())
                with store.session() as session:
                    for run in made:
                        yield LabelledRun(_kind(run.cell), _windows(session, run.run_id, _Simulated(run).causes))


def _published(seed: int, names: Sequence[str]) -> Iterator[LabelledRun]:
    with tempfile.TemporaryDirectory() as directory:
        product.run_seed(seed, names, Path(directory))
        with Store.open(Path(directory) / "s.duckdb", read_only=True) as store, store.session() as session:
            for run_id, setting, story in published_runs(seed, names):
                yield LabelledRun(
                    setting.kind.name, _windows(session, run_id, _Told(story).causes, sorted(story.suspected))
                )


def _kind(cell: Cell) -> str:
    return cell.archetype


def _fleet(cell: Cell) -> tuple[bool, int]:
    return cell.gpm, cell.every


@dataclass(frozen=True, slots=True)
class _Simulated:
    """What is true of a run of bench/truth."""

    run: SimulatedRun

    def causes(self, window_ms: int) -> tuple[str, ...]:
        """Return what a window waits for, and what counts as right as that."""
        run = self.run
        since = window_ms / 1000 - run.started_at / 1_000_000
        times = np.clip([since, since + WINDOW_SECONDS], 0.0, float(run.seconds))
        held: dict[str, float] = {}
        for rank in range(run.cell.ranks):
            line = run.lines[run.draw.group_of_rank[rank]]
            for (state, cause), seconds in zip(line.labels(), line.labelled(times)[0], strict=True):
                label = f"{state}/{cause or ''}"
                held[label] = held.get(label, 0.0) + float(seconds)
        accepts: dict[str, set[str]] = {}
        for (state, cause), as_right in run.draw.same.items():
            accepts.setdefault(f"{as_right[0]}/{as_right[1] or ''}", set()).add(f"{state}/{cause or ''}")
        return _right(held, accepts)


@dataclass(frozen=True, slots=True)
class _Told:
    """What is true of a run of the second generator."""

    story: Story

    def causes(self, window_ms: int) -> tuple[str, ...]:
        """Return what a window waits for, and what counts as right as that."""
        since = window_ms / 1000 - BASE
        held: dict[str, float] = {}
        for lane in self.story.lanes:
            for label, seconds in lane.truth(since, since + WINDOW_SECONDS).items():
                held[label] = held.get(label, 0.0) + seconds
        return _right(held, self.story.accepts)


def _right(held: Mapping[str, float], accepts: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Return the causes that may be told: of most of the want, where that is more than a trifle."""
    starved = {label: seconds for label, seconds in held.items() if label.startswith(_STARVED)}
    if not starved or sum(starved.values()) < POSITIVE * sum(held.values()):
        return ()
    most = max(starved, key=starved.__getitem__)
    told = {most, *(label for label in accepts.get(most, ()) if label.startswith(_STARVED))}
    causes = (label.removeprefix(_STARVED) for label in told)
    return tuple(sorted(_OURS.get(cause, cause) for cause in causes))


def _windows(
    session: Session, run_id: str, causes: Callable[[int], tuple[str, ...]], suspects: Sequence[str] | None = None
) -> list[LabelledWindow]:
    rows = session.rows("SELECT counts, verdict FROM run_windows WHERE run_id = ? ORDER BY window_start", [run_id])
    found = []
    for counts, told in rows:
        window, verdict = RunWindow.from_json(counts), Verdict.from_json(told)
        right = causes(window.window_ms)
        named = suspects if suspects is not None else () if right else NEVER_BOOKED
        found.append(LabelledWindow(window, right, tuple(named), _is_open(verdict)))
    return found


def _is_open(verdict: Verdict) -> bool:
    is_resting = verdict.is_service or verdict.is_interactive
    return not (is_resting or verdict.is_hung or verdict.underused_cause == "launch_bound")
