"""All that this package says of one run."""

from dataclasses import dataclass

from analyzer.measures.efficiency import efficiency_query
from analyzer.measures.efficiency.checkpoints import Checkpoints, Figure, checkpoints, withheld
from analyzer.measures.efficiency.efficiency_query import Straggler, stragglers
from analyzer.measures.efficiency.goodput import (
    MODEL_LABEL,
    Attempt,
    Goodput,
    Life,
    Peer,
    Scaling,
    Unit,
    goodput,
    mfu,
    scaling,
    signature,
)
from analyzer.measures.efficiency.steps import EXPIRED, ReportedProgress, StepTime, by_period, step_time
from collector.lake.tiers import kept_from
from collector.store.session import Session

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
    if run.stage in efficiency_query.NOT_TRAINING:
        return None
    attempts = efficiency_query.attempts(session, run.run_id)
    said = efficiency_query.reported_progress(session, [run.run_id]).get(run.run_id)
    labels = efficiency_query.labels(session, run.run_id)
    counted = said is not None and bool(said.steps)
    wave = None if counted or log else efficiency_query.wave(samples, run.run_id, run.start_us, run.end_us)
    rate = _tokens_per_second(said)
    return Efficiency(
        step_time(said, wave, log, is_expired=kept_from(samples, ("gpu_samples",)) > run.start_us),
        rate,
        goodput(
            efficiency_query.state_time(session, run.run_id, run.start_us, run.end_us),
            attempts,
            Life(run.gpus, run.submitted_at, run.started_at, run.start_us, run.ended_at or run.end_us),
        ),
        mfu(labels, rate, run.gpus, run.sku, efficiency_query.power_limit_watts(session, run.run_id)),
        scaling_of(session, run, labels, samples),
        _checkpoints(session, run, attempts),
        stragglers(efficiency_query.waited(session, run.start_us, run.end_us, run.run_id)),
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
    own = efficiency_query.savings(session, run.start_us, run.end_us, run.run_id)
    if not own:
        return None
    nodes = sorted({node for attempt in attempts for node in attempt.nodes})
    return checkpoints(own[0], efficiency_query.failures(session, run.end_us), nodes)


def scaling_of(session: Session, run: Subject, labels: dict[str, str], samples: Session) -> Scaling:
    """Return what runs like this one come to at each size that was seen."""
    own = signature(run.name, labels, run.sku)
    if own is None or run.sku is None:
        return Scaling(None, (), "its model or its GPUs are not known")
    found = efficiency_query.peers(session, run.run_id, run.name, labels.get(MODEL_LABEL), run.sku)
    alike = [(run_id, gpus) for run_id, name, gpus, theirs in found if signature(name, theirs, run.sku) == own]
    said = efficiency_query.reported_progress(session, [run_id for run_id, _ in alike])
    peers = [peer for run_id, gpus in alike if (peer := peer_of(gpus, said.get(run_id))) is not None]
    if own.batch is not None:
        told = {peer.run_id for peer in peers}
        rest = [(run_id, gpus) for run_id, gpus in alike if run_id not in told][:_WAVES_MOST]
        seen = [_seen(samples, run_id, gpus) for run_id, gpus in rest]
        return scaling(
            [*peers, *(peer for peer in seen if isinstance(peer, Peer))],
            is_batch_known=True,
            expired=seen.count(EXPIRED),
        )
    return scaling(peers, is_batch_known=False)


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
    wave = efficiency_query.wave(session, run_id, start, end)
    if wave is None and kept_from(session, ("gpu_samples",)) > start:
        return EXPIRED
    step = by_period(wave)
    if step.seconds is None or not step.steps:
        return None
    return Peer(run_id, gpus, {"steps": step.steps}, round(step.seconds * step.steps * 1_000_000))
