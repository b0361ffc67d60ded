"""What a notice is: something to look at that claims no GPU-second. What it costs stands in the findings."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent.wire.units import DAY_US
from analyzer.findings.finding import Evidence
from analyzer.ids import short_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.states import Confidence

if TYPE_CHECKING:
    from collector.store.session import Session

Actor = Literal["run", "platform", "capacity"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing about one subject in one period.

    `subject` is what people call it: a run's name, a host, a GPU, a queue. The id depends on rule and subject alone,
    so that a notice keeps it from week to week (analyzer.ids.short_id with the prefix "n").
    """

    id: str
    rule: str  # "hardware/pcie_width", "fleet/fragmentation"
    subject: str
    sentence: str  # the number, what it means, what to do
    actor: Actor
    confidence: Confidence = "high"
    node: str | None = None
    gpu_uuid: str | None = None
    run_ids: tuple[str, ...] = ()
    team: str | None = None
    evidence: tuple[Evidence, ...] = ()
    wrong_if: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """What a rule says of its subject, and why; whoever asked the rule knows of whom."""

    sentence: str
    confidence: Confidence
    evidence: Sequence[Evidence]
    wrong_if: str


@dataclass(frozen=True, slots=True)
class Span:
    """The period that is looked at: [start_us, end_us), microseconds UTC."""

    start_us: int
    end_us: int

    def unjudged(self, rule: str, missing: str) -> Unjudged:
        """Return that a rule could not be judged of the whole fleet, and which signal was missing."""
        return Unjudged(self.start_us // DAY_US * DAY_US, "fleet", rule, missing)


def notice_id(rule: str, subject: str) -> str:
    """Return the id of what a rule noticed of a subject, the same in every week."""
    return short_id("n", rule, subject)


# A rule counts in SQL, judges in pure functions, and says of whom it could not judge for want of which signal.
Rule = Callable[["Session", Span], Iterator[Notice | Unjudged]]
