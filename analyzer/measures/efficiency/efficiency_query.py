"""Typed readings of the store for this package, where SQL counts, and all that the package says of one run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from analyzer.measures.efficiency.checkpoints import (
    NODE_FAILURES_LEAST,
    Checkpoints,
    Failures,
    Figure,
    Saving,
    checkpoints,
    withheld,
)
from analyzer.measures.efficiency.goodput import (
    MODEL_LABEL,
    Attempt,
    Goodput,
    Life,
    Peer,
    Scaling,
    Spent,
    Unit,
    goodput,
    mfu,
    scaling,
    signature,
)
from analyzer.measures.efficiency.steps import (
    EXPIRED,
    ReportedProgress,
    StepTime,
    Wave,
    by_period,
    longest_even,
    step_time,
)
from analyzer.period import WINDOW_MS
from analyzer.queries.ledger_query import labels_of
from analyzer.queries.statements import statements
from analyzer.states import LOSABLE
from collector.lake.tiers import kept_from
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


_WAVES_MOST = 8  # runs of which samples are read for want of a count; each costs a tenth of a second


@dataclass(frozen=True, slots=True)
class Subject:
    """The run that is looked at, in the hours that the ledger has of it. Times are microseconds UTC."""

    run_id: str
    name: str | None
    stage: str | None
    gpus: int
    sku: str | None
    start_us: int
    end_us: int
    submitted_at: int | None
    started_at: int | None
    ended_at: int | None  # None while it runs


@dataclass(frozen=True, slots=True)
class Efficiency:
    """How well a run used what it held. `mfu` is a ratio, `tokens_per_second` of working time."""

    step: StepTime
    tokens_per_second: Figure
    goodput: Goodput
    mfu: Figure
    scaling: Scaling
    checkpoints: Checkpoints | None
    stragglers: tuple[Straggler, ...]


def efficiency(session: Session, run: Subject, log: StepTime | None = None, *, samples: Session) -> Efficiency | None:
    """Return it; None for runs that make no steps (serving, interactive, …), to which these terms do not apply.

    `log` is a step time that somebody read from the run's own output; `samples` sees those of the runs that `session`
    sees, whatever else it sees.
    """
    if run.stage in NOT_TRAINING:
        return None
    run_attempts = attempts(session, run.run_id)
    said = reported_progress(session, [run.run_id]).get(run.run_id)
    run_labels = labels(session, run.run_id)
    counted = said is not None and bool(said.steps)
    run_wave = None if counted or log else wave(samples, run.run_id, run.start_us, run.end_us)
    rate = _tokens_per_second(said)
    return Efficiency(
        step_time(said, run_wave, log, is_expired=kept_from(samples, ("gpu_samples",)) > run.start_us),
        rate,
        goodput(
            state_time(session, run.run_id, run.start_us, run.end_us),
            run_attempts,
            Life(run.gpus, run.submitted_at, run.started_at, run.start_us, run.ended_at or run.end_us),
        ),
        mfu(run_labels, rate, run.gpus, run.sku, power_limit_watts(session, run.run_id)),
        scaling_of(session, run, run_labels, samples),
        _checkpoints(session, run, run_attempts),
        stragglers(waited(session, run.start_us, run.end_us, run.run_id)),
    )


def _tokens_per_second(said: ReportedProgress | None) -> Figure:
    if said is None or not said.tokens:
        return withheld("the run does not report tokens")
    if said.is_chorus:
        return withheld("several hosts count its tokens at once: let rank 0 alone report")
    if not said.working_us:
        return withheld("the ledger has no productive time for it")
    return Figure(said.tokens * 1_000_000 / said.working_us)


def _checkpoints(session: Session, run: Subject, attempts: tuple[Attempt, ...]) -> Checkpoints | None:
    own = savings(session, run.start_us, run.end_us, run.run_id)
    if not own:
        return None
    nodes = sorted({node for attempt in attempts for node in attempt.nodes})
    return checkpoints(own[0], failures(session, run.end_us), nodes)


def scaling_of(session: Session, run: Subject, labels: dict[str, str], samples: Session) -> Scaling:
    """Return what runs like this one come to at each size that was seen."""
    own = signature(run.name, labels, run.sku)
    if own is None or run.sku is None:
        return Scaling(None, (), "its model or its GPUs are not known")
    found = peers(session, run.run_id, run.name, labels.get(MODEL_LABEL), run.sku)
    alike = [(run_id, gpus) for run_id, name, gpus, theirs in found if signature(name, theirs, run.sku) == own]
    said = reported_progress(session, [run_id for run_id, _ in alike])
    counted = [peer for run_id, gpus in alike if (peer := peer_of(gpus, said.get(run_id))) is not None]
    if own.batch is not None:
        told = {peer.run_id for peer in counted}
        rest = [(run_id, gpus) for run_id, gpus in alike if run_id not in told][:_WAVES_MOST]
        seen = [_seen(samples, run_id, gpus) for run_id, gpus in rest]
        return scaling(
            [*counted, *(peer for peer in seen if isinstance(peer, Peer))],
            is_batch_known=True,
            expired=seen.count(EXPIRED),
        )
    return scaling(counted, is_batch_known=False)


def peer_of(gpus: int, said: ReportedProgress | None) -> Peer | None:
    """Return what a run of so many GPUs says that it did; None where nobody knows whose count is the run's."""
    if said is None or said.is_chorus or not said.working_us:
        return None
    amounts: dict[Unit, int] = {}
    if said.tokens:
        amounts["tokens"] = said.tokens
    if said.samples:
        amounts["samples"] = said.samples
    if said.steps:
        amounts["steps"] = said.steps
    return Peer(said.run_id, gpus, amounts, said.working_us)


def _seen(session: Session, run_id: str, gpus: int) -> Peer | str | None:
    """Return a run whose steps are seen in its samples alone, one a period; EXPIRED where those are gone."""
    start, end = session.row("SELECT min(hour), max(hour) + 3600000000 FROM ledger WHERE run_id = ?", [run_id])
    if start is None:
        return None
    run_wave = wave(session, run_id, start, end)
    if run_wave is None and kept_from(session, ("gpu_samples",)) > start:
        return EXPIRED
    step = by_period(run_wave)
    if step.seconds is None or not step.steps:
        return None
    return Peer(run_id, gpus, {"steps": step.steps}, round(step.seconds * step.steps * 1_000_000))
