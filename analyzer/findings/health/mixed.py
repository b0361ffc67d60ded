"""A service and training on one host or in one queue. It counts where one of them did worse meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.limits import LIMITS, NoticeLimits
from analyzer.findings.health.notice import Notice, Span, notice_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements
from analyzer.text.wording import counted, length_of_time, percent, some

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "fleet/mixed"


@dataclass(frozen=True, slots=True)
class TimeShare:
    """A part of some time, both in milliseconds."""

    of_ms: int = 0
    ms: int = 0

    @property
    def permille(self) -> int | None:
        """The share, or None of no time at all."""
        return 1000 * self.ms // self.of_ms if self.of_ms else None


@dataclass(frozen=True, slots=True)
class Mixture:
    """One service, the training beside it, and how both did together and apart."""

    run_id: str
    name: str | None
    team: str | None
    ms: int  # hours of hosts in which both held GPUs
    nodes: tuple[str, ...]
    trainings: tuple[str, ...]
    missed: TimeShare  # of the service's time, over its promise, beside training
    missed_alone: TimeShare
    slowed: TimeShare  # of training's GPU time, throttled or starved, beside the service
    slowed_alone: TimeShare


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield a notice for each service beside training, by name, then for each queue that takes both."""
    make, services, select, queues = statements("findings/health/mixed.sql")
    session.execute(make)
    ids = [run_id for (run_id,) in session.rows(services)]
    if ids:
        found = [
            _mixture(row) for row in session.rows(select, {"start": span.start_us, "end": span.end_us, "runs": ids})
        ]
        if not any(mixture.missed.of_ms for mixture in found):
            yield span.unjudged(_RULE, "no service beside training told of its latency and its promise (slo_seconds)")
        for mixture in found:
            yield from notices_of(mixture)
    for queue, count, trainings in session.rows(queues):
        yield _queue(queue, count, trainings)


def _mixture(row: tuple[object, ...]) -> Mixture:
    run_id, name, team, ms, nodes, names, *parts = row
    pairs = [TimeShare(*parts[at : at + 2]) for at in range(0, len(parts), 2)]  # type: ignore[arg-type]
    return Mixture(run_id, name, team, ms, tuple(nodes), tuple(names), *pairs)  # type: ignore[arg-type]


def notices_of(mixture: Mixture, limits: NoticeLimits = LIMITS) -> Iterator[Notice]:
    """Yield a notice of a service beside training: of medium confidence where either did worse for it, else low."""
    if mixture.ms < limits.mixed_ms:
        return
    missed, slowed = _misses_more(mixture, limits), _loses_more(mixture, limits)
    effect = "neither is seen to do worse for it"
    if missed:
        effect = f"it is over its promised latency {_share(mixture.missed)} of that time"
    elif slowed:
        effect = f"training is throttled or starved {_share(mixture.slowed)} of that time"
    subject = mixture.name or mixture.run_id
    yield Notice(
        notice_id(_RULE, subject),
        _RULE,
        subject,
        f"serves on {some(list(mixture.nodes))} beside training ({some(list(mixture.trainings))}) for "
        f"{length_of_time(mixture.ms)}; {effect}: give services hosts of their own",
        "platform",
        "medium" if missed or slowed else "low",
        node=mixture.nodes[0] if len(mixture.nodes) == 1 else None,
        run_ids=(mixture.run_id,),  # and no team: it names runs of others
        evidence=(
            EvidenceLine("over its promise, beside training", _share(mixture.missed)),
            EvidenceLine("over its promise, otherwise", _share(mixture.missed_alone)),
            EvidenceLine("training throttled or starved, beside it", _share(mixture.slowed)),
            EvidenceLine("training throttled or starved, otherwise", _share(mixture.slowed_alone)),
        ),
        wrong_if="the service has its peak in the hours in which training runs beside it",
    )


def _misses_more(mixture: Mixture, limits: NoticeLimits) -> bool:
    together, alone = mixture.missed.permille, mixture.missed_alone.permille
    if together is None or together < limits.missed_permille or alone is None:
        return False
    return together >= limits.missed_factor * alone


def _loses_more(mixture: Mixture, limits: NoticeLimits) -> bool:
    together, alone = mixture.slowed.permille, mixture.slowed_alone.permille
    return together is not None and alone is not None and together - alone >= limits.slowed_permille


def _share(part: TimeShare) -> str:
    return "not told" if part.permille is None else percent(part.permille)


def _queue(queue: str, services: int, trainings: int) -> Notice:
    return Notice(
        notice_id(_RULE, f"queue {queue}"),
        _RULE,
        f"queue {queue}",
        f"takes {counted(services, 'service')} and {counted(trainings, 'training run')}: "
        "in queues of their own neither waits for the other's GPUs",
        "platform",
        "low",
        evidence=(
            EvidenceLine("in this queue", f"{counted(services, 'service')}, {counted(trainings, 'training run')}"),
        ),
        wrong_if="its priorities or quotas already keep the two apart",
    )
