"""Typed readings of the store for this package: SQL counts, nothing here judges."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from analyzer.measures.efficiency.checkpoints import NODE_FAILURES_LEAST, Failures, Saving
from analyzer.measures.efficiency.goodput import Attempt, Spent
from analyzer.measures.efficiency.steps import ReportedProgress, Wave, longest_even
from analyzer.period import WINDOW_MS
from analyzer.queries.ledger_query import labels_of
from analyzer.queries.statements import statements
from analyzer.states import LOSABLE
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Waited:
    """GPU time that the ranks of one run waited for one GPU, and what it cost in millionths (None: no price)."""

    caused_by: str | None  # a GPU; None where nobody can say which
    node: str | None  # the host of that GPU
    run_id: str
    milliseconds: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True)
class Straggler:
    """One GPU for which others waited: its host, in which runs, how much GPU time, at what cost."""

    gpu_uuid: str | None
    node: str | None
    run_ids: tuple[str, ...]
    milliseconds: int
    cost_micros: int | None


def stragglers(waited: Iterable[Waited]) -> tuple[Straggler, ...]:
    """Return the GPUs for which others waited, the dearest in GPU time first."""
    by_gpu: dict[str | None, list[Waited]] = {}
    for row in waited:
        by_gpu.setdefault(row.caused_by, []).append(row)
    found = [
        Straggler(
            gpu,
            rows[0].node,
            tuple(sorted({row.run_id for row in rows})),
            sum(row.milliseconds for row in rows),
            known_cost(row.cost_micros for row in rows),
        )
        for gpu, rows in by_gpu.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.milliseconds, one.gpu_uuid or "")))


def known_cost(amounts: Iterable[int | None]) -> int | None:
    """Return the sum of amounts; None where any of them is unknown, since a part is not the cost."""
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


# States in which a step can be under way.
_STEPPING = sorted({*LOSABLE, "lost_work", "unexplained"})
# Stages that make no steps towards a model: their goodput, their checkpoints and their failures are other things.
NOT_TRAINING = ("serving", "interactive", "evaluation", "data preparation", "deployment")
_LOOKED_BACK_US = 28 * 86_400_000_000  # how far back failures are counted: four weeks, as reports of a month
_LIVED_US = 3_600_000_000  # an attempt that fails sooner was a mistake, and had nothing to save
_AROUND_US = 900_000_000  # a scheduler may call a host down a quarter of an hour before or after it ends its runs
_WINDOW_US = WINDOW_MS * 1000


def state_time(session: Session, run_id: str, start_us: int, end_us: int) -> tuple[Spent, ...]:
    """Return what a run held in [start_us, end_us), by state and cause."""
    return tuple(Spent(*row) for row in _rows(session, "spent", run=run_id, start=start_us, end=end_us))


def attempts(session: Session, run_id: str) -> tuple[Attempt, ...]:
    """Return a run's attempts, in order."""
    rows = _rows(session, "attempts", run=run_id)
    return tuple(
        Attempt(number, started, worked, ended, status, tuple(nodes or ()))
        for number, started, worked, ended, status, nodes in rows
    )


def reported_progress(session: Session, run_ids: Sequence[str]) -> dict[str, ReportedProgress]:
    """Return what runs said of themselves, by run; those that said nothing are not there."""
    rows = _rows(session, "told", runs=list(run_ids), stepping=_STEPPING, bucket_us=_WINDOW_US)
    return {row[0]: ReportedProgress(*row) for row in rows}


def wave(session: Session, run_id: str, start_us: int, end_us: int) -> Wave | None:
    """Return one GPU of a run over time: its SM activity, else its power; None where there are no such samples."""
    rows = _rows(session, "wave", run=run_id, start=start_us, end=end_us, stepping=_STEPPING)
    activity = longest_even([(start, end, sm) for start, end, sm, _ in rows if sm is not None])
    if activity is not None:
        return Wave(*activity, "sm_active_ratio")
    power = longest_even([(start, end, watts) for start, end, _, watts in rows if watts is not None])
    return None if power is None else Wave(*power, "power_watts")


def peers(
    session: Session, run_id: str, name: str | None, model: str | None, sku: str
) -> list[tuple[str, str | None, int, dict[str, str]]]:
    """Return runs that may be of the same model, itself first, then the newest: id, name, GPUs and labels."""
    rows = _rows(session, "peers", run=run_id, name=name, model=model, sku=sku)
    return [(run, called, gpus, labels_of(labels)) for run, called, gpus, labels in rows]


def labels(session: Session, run_id: str) -> dict[str, str]:
    """Return a run's labels by the last word of its scheduler."""
    row = session.row(
        "SELECT arg_max(labels, batch) FROM allocations WHERE run_id = ? AND labels IS NOT NULL", [run_id]
    )
    return labels_of(row[0])


def power_limit_watts(session: Session, run_id: str) -> float | None:
    """Return the lowest power limit of a run's GPUs; None where one of them tells none."""
    limit: float | None = _rows(session, "power_limit", run=run_id)[0][0]
    return limit


def failures(session: Session, end_us: int) -> Failures:
    """Return what ended training in the four weeks before, over the whole fleet."""
    ((count, node_us, repeating),) = _rows(
        session,
        "failures",
        start=end_us - _LOOKED_BACK_US,
        end=end_us,
        lived_us=_LIVED_US,
        around_us=_AROUND_US,
        times=NODE_FAILURES_LEAST,
        others=list(NOT_TRAINING),
    )
    return Failures(count, node_us, tuple((one["node"], one["times"]) for one in repeating or ()))


def savings(session: Session, start_us: int, end_us: int, run_id: str | None = None) -> tuple[Saving, ...]:
    """Return the checkpoints of one run, or of all that train, in [start_us, end_us)."""
    are_some, select = statements("measures/efficiency/saving.sql")
    if not session.rows(are_some):
        return ()
    asked: dict[str, object] = {"start": start_us, "end": end_us, "run": run_id, "others": list(NOT_TRAINING)}
    rows = session.rows(select, asked)
    return tuple(
        Saving(run, name, team, gpus, nodes, tuple(seen), tuple(named), *spent)
        for run, name, team, gpus, nodes, seen, named, *spent in rows
    )


def waited(session: Session, start_us: int, end_us: int, run_id: str | None = None) -> tuple[Waited, ...]:
    """Return the time that ranks waited for slow ones in [start_us, end_us)."""
    rows = _rows(session, "stragglers", start=start_us, end=end_us, run=run_id)
    return tuple(Waited(*row) for row in rows)


def _rows(session: Session, file: str, **parameters: object) -> list[tuple[Any, ...]]:
    (select,) = statements(f"measures/efficiency/{file}.sql")
    return session.rows(select, parameters)
