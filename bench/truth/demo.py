"""How right the ledger is on the demo fleet, by labels that the analyzer never sees: python -m bench.truth.demo.

The labels stay in the simulator until the ledger is finished; only this script brings the two together.
"""

import argparse
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from analyzer.analysis import analyze
from analyzer.settings.settings import Settings
from analyzer.states import STATES
from bench.demo_store import demo_fleet, fill, prices_beside
from bench.machine import add_record, keep
from bench.truth.simulated import write_truth
from collector.store.database import Store
from collector.store.session import Session

HOUR_MS = 3_600_000
POSITIVE = 0.05  # a run has a loss where it takes this share of its GPU time (TF Profiler: input-bound from 5%)
JUDGED = {
    "input starvation": "state = 'starved'",
    "idle allocation": "state = 'held_idle'",
    "cross-rack transfers": "state = 'communicating' AND cause = 'cross_rack'",
}


@dataclass(frozen=True)
class StateScore:
    """GPU-hours of one state: labelled, booked, and of the booked how many where the label agrees in the hour."""

    state: str
    truth_hours: float
    ledger_hours: float
    off_percent: float | None


@dataclass(frozen=True)
class RunScore:
    """How many runs have a loss and were found to have it."""

    what: str
    runs: int
    found: int
    right: int
    precision: float | None
    recall: float | None
    missed: list[str]
    wrong: list[str]


def main() -> None:
    """Simulate, analyse, compare, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="several may be given; 1, 2 and 3 by default")
    parser.add_argument("--every", type=int, default=60)
    parser.add_argument("--last-day-every", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="keep the store of the last seed here, with the truth in `truth`")
    add_record(parser)
    asked = parser.parse_args()
    kept = {}
    for seed in asked.seed or [1, 2, 3]:
        with tempfile.TemporaryDirectory() as directory:
            states, runs = _one(seed, asked.every, asked.last_day_every, Path(directory), asked.keep)
        _show(seed, states, runs)
        kept[seed] = {"states": [asdict(score) for score in states], "runs": [asdict(score) for score in runs]}
    keep("truth_demo", kept, record=asked.record)


def _one(
    seed: int, every: int, last_day_every: int, directory: Path, keep: Path | None
) -> tuple[list[StateScore], list[RunScore]]:
    fleet = demo_fleet(seed, every, last_day_every)
    with Store.open(keep) as store:
        fill(store, fleet)
        end = fleet.site.started_at + fleet.site.span * 1000
        analyze(store, Settings(prices=prices_beside(directory)), now_us=end)
        write_truth(fleet, directory / "truth.npz")
        with store.session() as session:
            _load_truth(session, directory / "truth.npz")
            return _states(session), _runs(session)


def _load_truth(session: Session, path: Path) -> None:
    """Bring the labels into a table, each interval with the run that held the GPU in the middle of it."""
    kept = np.load(path)
    labels = kept["labels"][kept["label"]]
    session.execute(
        "CREATE OR REPLACE TABLE labelled (gpu_uuid VARCHAR, started_at BIGINT, ended_at BIGINT, state VARCHAR, "
        "cause VARCHAR, milliseconds BIGINT)"
    )
    columns = [kept["gpus"][kept["gpu"]], kept["started_at"], kept["ended_at"], labels[:, 0], labels[:, 1]]
    session.load(
        "labelled",
        ("gpu_uuid", "started_at", "ended_at", "state", "cause", "milliseconds"),
        list(zip(*[column.tolist() for column in columns], kept["milliseconds"].tolist(), strict=True)),
    )
    session.execute(
        """
        CREATE OR REPLACE TABLE truth AS
        SELECT l.gpu_uuid, l.state, l.cause, a.run_id,
            l.milliseconds * (least(l.ended_at, coalesce(a.ended_at, l.ended_at))
                - greatest(l.started_at, coalesce(a.started_at, l.started_at))) // (l.ended_at - l.started_at)
                AS milliseconds
        FROM labelled l LEFT JOIN allocations a
            ON a.gpu_uuid = l.gpu_uuid AND l.state <> 'unallocated' AND a.started_at < l.ended_at
            AND coalesce(a.ended_at, 9223372036854775807) > l.started_at
        """
    )


def _states(session: Session) -> list[StateScore]:
    truth = dict(session.rows("SELECT state, sum(milliseconds)::BIGINT FROM labelled GROUP BY state"))
    ledger = dict(session.rows("SELECT state, sum(milliseconds)::BIGINT FROM ledger GROUP BY state"))
    scores = []
    for state in STATES:
        was, booked = truth.get(state, 0), ledger.get(state, 0)
        off = 100 * (booked - was) / was if was else None
        scores.append(StateScore(state, round(was / HOUR_MS, 1), round(booked / HOUR_MS, 1), off and round(off, 1)))
    return scores


def _runs(session: Session) -> list[RunScore]:
    return [_run_score(session, what, where) for what, where in JUDGED.items()]


def _run_score(session: Session, what: str, where: str) -> RunScore:
    true = _positive(session, "truth", where)
    found = _positive(session, "ledger", where)
    right = len(true & found)
    return RunScore(
        what,
        len(true),
        len(found),
        right,
        round(right / len(found), 3) if found else None,
        round(right / len(true), 3) if true else None,
        sorted(true - found)[:10],
        sorted(found - true)[:10],
    )


def _positive(session: Session, table: str, where: str) -> set[str]:
    rows = session.rows(
        f"""
        SELECT coalesce(r.name, '') || ' ' || t.run_id FROM {table} t LEFT JOIN runs r USING (run_id)
        WHERE t.run_id IS NOT NULL GROUP BY ALL HAVING sum(milliseconds) FILTER ({where}) >= ? * sum(milliseconds)
        """,
        [POSITIVE],
    )
    return {name for (name,) in rows}


def _show(seed: int, states: list[StateScore], runs: list[RunScore]) -> None:
    print(f"seed {seed}\n{'state':16}{'labelled':>12}{'booked':>12}{'off':>9}")
    for state in states:
        off = "" if state.off_percent is None else f"{state.off_percent:+.1f}%"
        print(f"{state.state:16}{state.truth_hours:12,.1f}{state.ledger_hours:12,.1f}{off:>9}")
    for run in runs:
        print(
            f"{run.what:20} runs {run.runs:4} found {run.found:4} precision {run.precision} recall {run.recall}"
            + (f"\n    missed {run.missed}" if run.missed else "")
            + (f"\n    wrong  {run.wrong}" if run.wrong else "")
        )


if __name__ == "__main__":
    main()
