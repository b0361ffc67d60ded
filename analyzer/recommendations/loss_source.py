"""Who reads the ledger's losses: a seam, so that reports can be tested on findings that nobody has to book."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from analyzer.findings.finding import Finding
from analyzer.findings.ledger_findings import findings
from analyzer.ledger.timeline import Point, timeline
from analyzer.recommendations.advice_request import AdviceRequest
from analyzer.recommendations.advise import recommendations
from analyzer.recommendations.recommendation import Recommendation
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class LossSource:
    """What was found, what is advised (no guard has looked at it yet), and how a run went over time.

    What is advised follows from the findings, and from what is wanted: what answers a run's, or the fleet's whole list.
    """

    findings: Callable[[Session, int, int, str | None], list[Finding]]
    recommendations: Callable[[Session, list[Finding], int, int, AdviceRequest], list[Recommendation]]
    timeline: Callable[[Session, str, int], Sequence[Point]]

    @classmethod
    def own(cls) -> "LossSource":
        """Return the analyzer's own."""
        return cls(findings, recommendations, timeline)
