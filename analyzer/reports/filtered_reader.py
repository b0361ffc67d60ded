"""Read a part of the ledger: figures from a session that sees its runs alone, what was judged from the whole fleet's.

What lies between runs (free and drained GPUs, hosts that were silent, how often we were right) is the fleet's, and in
no part. What was found and advised is taken from the whole, so that nobody is accused for want of what others saw.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, cast

from analyzer.errors import LedgerError
from analyzer.findings.explain.argue import Argument
from analyzer.findings.finding import Finding
from analyzer.findings.health.all_notices import PeriodNotices
from analyzer.findings.history.history_tables import FindingHistory
from analyzer.period import Period
from analyzer.recommendations.lifecycle.realised import Realised
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.confining import confined
from analyzer.reports.finding_list import FindingsReport
from analyzer.reports.groups import By
from analyzer.reports.ledger_filter import WHOLE, LedgerFilter
from analyzer.reports.reader import Reader
from analyzer.reports.savings import checked
from analyzer.reports.week import WeekReport


class AboutRuns(Protocol):
    """What is about runs: a finding, a notice, a recommendation, a prediction."""

    @property
    def team(self) -> str | None:
        """Whose they are; None for what is no team's."""

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs; empty for what is about hosts or the fleet."""


@dataclass(frozen=True, slots=True)
class FilteredReader(Reader):
    """Reads the runs of `part`, which are `runs`; `whole` reads the fleet for it."""

    whole: Reader | None = None
    runs: frozenset[str] = frozenset()

    @property
    def _fleet(self) -> Reader:
        return cast("Reader", self.whole)

    def holds(self, one: AboutRuns) -> bool:
        """Return whether something is of this part: of its team, and of its runs alone where more is asked for."""
        if self.part.teams is not None and one.team not in self.part.teams:
            return False
        if self.part.team not in (None, one.team):
            return False
        only_team = replace(self.part, team=None, teams=None) == WHOLE
        return only_team or (bool(one.run_ids) and self.runs.issuperset(one.run_ids))

    def findings(self, period: Period) -> list[Finding]:
        """Return the fleet's findings of these runs; of one that others share it is what these runs lost."""
        found = [one for one in self._fleet.findings(period) if not self.runs.isdisjoint(one.run_ids)]
        if all(map(self.holds, found)):
            return found
        own = {one.id: one for one in Reader.findings(self, period)}
        return [one if self.holds(one) else own[one.id] for one in found if self.holds(one) or one.id in own]

    def all_advice(
        self,
        found: list[Finding],  # noqa: ARG002 - as Reader has it
        period: Period,
        *,
        of_run: bool = False,
    ) -> list[Recommendation]:
        """Return what of the fleet's advice is about these runs alone; it answers the fleet's findings, not `found`."""
        made = self._fleet.all_advice(self._fleet.findings(period), period, of_run=of_run)
        return [one for one in made if self.holds(one)]

    def looked(self, period: Period) -> PeriodNotices:
        """Return the notices of these runs; what could not be judged of the fleet is the fleet's."""
        return PeriodNotices(tuple(one for one in self._fleet.looked(period).notices if self.holds(one)), ())

    def checked(self, period: Period) -> tuple[Realised, ...]:
        """Return what came of changes of these runs."""
        return checked(self._fleet.session, period, self.holds)

    def case(self, period: Period) -> FindingHistory:
        """Return what is kept of all findings: it is looked up by the ids of those that are shown."""
        return self._fleet.case(period)

    def argued(self, finding: Finding, found: list[Finding], period: Period) -> Argument:
        """Return what argues for a finding, by all that was measured beside its runs."""
        return self._fleet.argued(finding, found, period)

    def week(self, period: Period, by: By | None = None) -> WeekReport:
        """Return the report of these runs, without the fleet's record; without a word its second table is by run."""
        return replace(Reader.week(self, period, by or "run"), part=self.part, record=None)

    def list_findings(self, period: Period, *, everything: bool = False, sure: str | None = None) -> FindingsReport:
        """Return the findings of these runs, without the fleet's record and count of closed ones."""
        report = Reader.list_findings(self, period, everything=everything, sure=sure)
        trend = None if report.trend is None else replace(report.trend, closed=None)
        return replace(report, part=self.part, record=None, closed=None, trend=trend)


@contextmanager
def of_part(whole: Reader, part: LedgerFilter) -> Iterator[FilteredReader]:
    """Yield a reader of a part of the ledger.

    Raises:
        LedgerError: the ledger has no such run, or none that may be seen.
    """
    with confined(whole.session, part) as own:
        runs = frozenset(run_id for (run_id,) in own.rows("SELECT run_id FROM runs"))
        if not runs:
            raise LedgerError(f"the ledger has no run of {part.words}: gpuledger report names what it has")
        yield FilteredReader(
            own, whole.settings, whole.loss_source, clock=whole.clock, part=part, whole=whole, runs=runs
        )
