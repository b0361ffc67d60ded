"""How often the replicas of a service start, how long that takes, and how soon after it they answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US
from analyzer.findings.finding import EvidenceLine
from analyzer.findings.health.notice import Notice, Span, Words
from analyzer.findings.health.serving.figures import ServiceFigures, gpu_hours_of, percent
from analyzer.ledger.unjudged import Unjudged
from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session

_RULE = "cold_starts"
_WORTH_PERMILLE = 20  # ours: a fiftieth of what a service holds is spent on starting
_FEWEST = 2  # one start is a start


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of one service in a period: of each GPU of each attempt of each run, milliseconds."""

    service: str
    team: str | None
    run_ids: tuple[str, ...]
    held_ms: int
    starting_ms: int
    starts: int
    usual_ms: int | None
    longest_ms: int
    answer_ms: int | None  # the median run's time from its start to its first answered request


def find_notices(session: "Session", span: Span) -> Iterator[Notice | Unjudged]:
    """Yield what is to be looked at, by service, and of whom the first answer is not known."""
    (select,) = statements("findings/health/cold_starts.sql")
    for service, team, run_ids, *sums in session.rows(select, {"start": span.start_us, "end": span.end_us}):
        starts = Starts(service, team, tuple(run_ids), *sums)
        yield from notices_of(starts, span)
        if starts.starts and starts.answer_ms is None:
            yield Unjudged(span.start_us, service, "serving/first answer", "not told: its answered requests")


def notices_of(starts: Starts, span: Span) -> Iterator[Notice]:
    """Yield the notice where starting is a part of the service's cost."""
    if starts.starts < _FEWEST or starts.starting_ms * 1000 < starts.held_ms * _WORTH_PERMILLE:
        return
    days = max(1, (span.end_us - span.start_us) // DAY_US)
    usual, longest = (starts.usual_ms or 0) / 1000, starts.longest_ms / 1000
    answered = EvidenceLine(
        "first answer", f"{(starts.answer_ms or 0) / 60_000:.1f} min after a run began, in the median"
    )
    about = ServiceFigures(starts.service, starts.team, starts.run_ids, starts.held_ms)
    words = Words(
        f"{starts.service} spent {gpu_hours_of(starts.starting_ms)} GPU-hours on starting, "
        f"{percent(starts.starting_ms, starts.held_ms)} of what it held: GPUs were started {starts.starts} times, "
        f"{usual:,.0f} s in the median. Weights on local disk, fewer restarts or a warm reserve shorten it.",
        "high",
        (
            EvidenceLine("starts", f"{starts.starts} GPUs in {days} {'day' if days == 1 else 'days'}"),
            EvidenceLine("start of a GPU", f"{usual:,.0f} s in the median, {longest:,.0f} s at the longest"),
            *((answered,) if starts.answer_ms is not None else ()),
        ),
        "the service starts as often and as long after its weights lie on local disk",
    )
    yield about.notice(_RULE, words)
