"""What a notice is: something to look at that claims no GPU-second. What it costs stands in the findings."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from agent.wire.units import DAY_US
from analyzer.findings.finding import EvidenceLine
from analyzer.ids import short_id
from analyzer.ledger.unjudged import Unjudged
from analyzer.states import Confidence
from analyzer.text.json_fields import WHOLE, Name, Sentence

if TYPE_CHECKING:
    from collector.store.session import Session

Actor = Literal["run", "platform", "capacity"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to look at about one subject in one period. It claims no GPU time: what it costs stands in findings.

    The id depends on rule and subject alone, so that a notice keeps it from week to week (analyzer.ids.short_id with
    the prefix "n").
    """

    __pydantic_config__: ClassVar[ConfigDict] = WHOLE

    id: str
    rule: str  # "hardware/pcie_width", "fleet/fragmentation"
    subject: Annotated[Name, Field(description="What people call it: a run's name, a host, a GPU, a queue.")]
    sentence: Sentence  # the number, what it means, what to do
    actor: Actor
    confidence: Confidence = "high"
    node: Name | None = None
    gpu_uuid: Name | None = None
    run_ids: tuple[Name, ...] = ()
    team: Name | None = None
    evidence: tuple[EvidenceLine, ...] = ()
    wrong_if: Annotated[Sentence, Field(description="What would prove it wrong; empty where it is a plain fact.")] = ""


@dataclass(frozen=True, slots=True)
class Words:
    """What a rule says of its subject, and why; whoever asked the rule knows of whom."""

    sentence: str
    confidence: Confidence
    evidence: Sequence[EvidenceLine]
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
