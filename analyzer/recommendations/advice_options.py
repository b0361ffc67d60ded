"""What recommendations are wanted by the settings of a site; what takes long is made once a generation in a server."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from analyzer.findings.finding import Finding
from analyzer.findings.health.all_notices import PeriodNotices, notices_in
from analyzer.findings.ledger_findings import findings
from analyzer.ledger.timeline import TimelinePoint, timeline
from analyzer.period import Period
from analyzer.prices.price_book import price_book
from analyzer.queries.generation import ByGeneration
from analyzer.recommendations.advise import AdviceRequest, recommendations
from analyzer.recommendations.fleet_plan.fleet_plan import plans
from analyzer.recommendations.lifecycle.realised import learned_shares
from analyzer.recommendations.recommendation import Recommendation
from analyzer.recommendations.saving import Share
from analyzer.settings.settings import Settings
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class LossSource:
    """What was found, what is advised (no guard has looked at it yet), and how a run went over time.

    What is advised follows from the findings, and from what is wanted: what answers a run's, or the fleet's whole list.
    """

    findings: Callable[[Session, int, int, str | None], list[Finding]]
    recommendations: Callable[[Session, list[Finding], int, int, AdviceRequest], list[Recommendation]]
    timeline: Callable[[Session, str, int], Sequence[TimelinePoint]]

    @classmethod
    def own(cls) -> "LossSource":
        """Return the analyzer's own."""
        return cls(findings, recommendations, timeline)


T = TypeVar("T")
_Recommend = Callable[["Session", list[Finding], int, int, AdviceRequest], list[Recommendation]]


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """Makes what readings of recommendations ask for. `kept` is None where one command reads once."""

    settings: Settings
    kept: ByGeneration | None = None

    def advised(
        self, recommend: _Recommend, session: Session, found: list[Finding], period: Period, *, of_run: bool
    ) -> list[Recommendation]:
        """Return what `recommendations` makes of these findings: of one run, or of the fleet.

        Raises:
            ConfigError: the price file cannot be read.
            StoreError: the store does not answer.
        """
        if of_run:
            return recommend(session, found, period.start, period.end, self.of_run(session))
        wanted, what = self.of_fleet(session), ("advice", period.start, period.end, tuple(found))
        return self._once(session, what, lambda: recommend(session, found, period.start, period.end, wanted))

    def of_run(self, session: Session) -> AdviceRequest:
        """Return what a run's page asks for: what answers its findings, without samples, notices or a plan."""
        return AdviceRequest(is_of_fleet=False, realised=self.realised(session))

    def of_fleet(self, session: Session) -> AdviceRequest:
        """Return what the list of the fleet asks for.

        Raises:
            ConfigError: the price file cannot be read.
        """
        seconds = self.settings.advising.plan_seconds
        plan = partial(plans, seconds=seconds) if seconds else None
        return AdviceRequest(True, price_book(self.settings), plan, self.realised(session), self.looked)

    def looked(self, session: Session, start_us: int, end_us: int) -> PeriodNotices:
        """Return what is worth a look in a period: the list of notices and the advice both ask."""
        return self._once(session, ("notices", start_us, end_us), lambda: notices_in(session, start_us, end_us))

    def has_looked(self, session: Session, start_us: int, end_us: int) -> bool:
        """Whether looked() is made already."""
        return self.kept is not None and self.kept.has(session, ("notices", start_us, end_us))

    def realised(self, session: Session) -> Mapping[str, Share]:
        """Return the shares that realised savings show, by kind; none where the settings do not want them used."""
        if not self.settings.advising.learn_shares:
            return {}
        return self._once(session, "shares", lambda: learned_shares(session))

    def _once(self, session: Session, what: Hashable, make: Callable[[], T]) -> T:
        return make() if self.kept is None else self.kept.get(session, what, make)
