"""What can be read of a ledger, for one request: figures and findings, without layout and without transport."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import time_ns
from typing import Protocol, TypeVar

from analyzer.findings.argue import Argument, argue
from analyzer.findings.finding import Finding, FindingDocument, finding_documents
from analyzer.findings.health.all_notices import PeriodNotices
from analyzer.findings.judgement import FindingHistory, lives, read_case
from analyzer.findings.ledger_findings import still_costs
from analyzer.finops.charges.closing import edited
from analyzer.finops.charges.sums import Charged, charged
from analyzer.finops.non_gpu_costs.energy import non_gpu_rates
from analyzer.ids import TYPED_LEAST, by_id
from analyzer.ledger.coverage import (
    Unjudged,
    fleet,
    known_hours,
    known_part,
    ledger_end,
    like_before,
    measured,
    newest_hour_end,
    rules_in,
    unjudged,
)
from analyzer.ledger.run_facts import find_run
from analyzer.measures.efficiency.steps import StepTime
from analyzer.measures.traffic.run_traffic import RunTraffic, read_traffic
from analyzer.measures.traffic.tariff import tariff_book
from analyzer.period import ALARMS_PERIOD, Calendar, Period
from analyzer.prices.price_book import price_book, repriced
from analyzer.queries.generation import ByGeneration
from analyzer.recommendations.advise import AdviceOptions, LossSource, name_of_notices, runs_of
from analyzer.recommendations.guards import Moment, guarded
from analyzer.recommendations.lifecycle.lifecycle_tables import Offer, predictions, rejections
from analyzer.recommendations.lifecycle.realised import Realised
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.findings import Explained, FindingsReport, findings_report
from analyzer.reports.groups import By, groups
from analyzer.reports.request import WHOLE, LedgerFilter
from analyzer.reports.run import (
    SPARK_POINTS,
    RunDocument,
    own_findings,
    run_efficiency,
    run_energy,
    run_facts,
    run_report,
    run_service,
    run_span,
    worth_showing,
)
from analyzer.reports.savings import SavingsReport, checked, savings_report
from analyzer.reports.week import WeekReport, by_saving, week_report
from analyzer.settings.settings import Settings
from collector.store.session import Session

T = TypeVar("T")
_WEEKS_MOST = 4  # that are read to find one; of more, --since names the one


class AboutRuns(Protocol):
    """What is about runs: a finding, a notice, a recommendation, a prediction."""

    @property
    def team(self) -> str | None:
        """Whose they are; None for what is no team's."""

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs; empty for what is about hosts or the fleet."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one ledger with one site's settings, for one request: what it found once, it does not look for again."""

    session: Session
    settings: Settings
    loss_source: LossSource = field(default_factory=LossSource.own)
    step_log: StepTime | None = None  # what a log of the run told, where somebody named one
    part: LedgerFilter = WHOLE  # what of the ledger the session sees; filtered_reader.py reads what is less than all
    kept: ByGeneration | None = None  # what a server makes once for all who read one state of the ledger
    clock: Callable[[], int] = field(default=lambda: time_ns() // 1000, repr=False)  # decides which mutes hold, no more
    _made: dict[Hashable, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def samples(self) -> Session:
        """What sees samples: they name no run, so that who sees a part of the runs finds none in its own session."""
        return self.session

    @property
    def calendar(self) -> Calendar:
        """The site's clock and week."""
        return self.settings.calendar

    def period(self, since: str | None, until: str | None = None) -> Period:
        """Return the period that is meant; without a word, the last complete week that the ledger knows.

        Raises:
            LedgerError: the ledger is empty.
        """
        now = self.now()
        if since is None and until is None:
            week = self.calendar.last_complete_week(now)
            return week if known_hours(self.session, week).known else self.calendar.week_of(now - 1)
        return self.calendar.span(since, until, now)

    def now(self) -> int:
        """Return the end of the newest hour that is known, microseconds UTC.

        Raises:
            LedgerError: the ledger is empty.
        """
        return ledger_end(self.session)

    def week(self, period: Period, by: By | None = None) -> WeekReport:
        """Return the report of a period; `by` is what its second table is by, where not by team."""
        found = self.findings(period)
        advice, came = by_saving(self.advice(found, period)), self.checked(period)
        return replace(self.figures(period, by), findings=tuple(found), recommendations=advice, checked=came)

    def checked(self, period: Period) -> tuple[Realised, ...]:
        """Return what came of changes that were made in the weeks before a period's end."""
        return checked(self.session, period)

    def savings(self) -> SavingsReport:
        """Return what came of all that was recommended, as far as it may be seen."""
        return savings_report(self.session, self.settings)

    def holds(self, _: AboutRuns) -> bool:
        """Return whether something may be seen whole: of the whole ledger everything."""
        return True

    def figures(self, period: Period, by: By | None = None) -> WeekReport:
        """Return the report of a period without findings and advice, which take ten times as long as all the rest."""
        return self.once(("figures", period, by or "team"), lambda: self._figures(period, by))

    def _figures(self, period: Period, by: By | None) -> WeekReport:
        report = week_report(self.session, period, self.calendar, self.settings.currency, [], [])
        told = replace(
            report,
            charged=self._charged(period),
            grouped=None if by in (None, "team") else groups(self.session, period, by),
            repriced=repriced(self.session, period, self.settings),
            edited=edited(self.session, period, self.settings),
        )
        return told.named(self.settings.cluster)

    def _charged(self, period: Period) -> tuple[Charged, ...]:
        return charged(self.session, period, price_book(self.settings).charges)

    def run(self, text: str) -> RunDocument:
        """Return the report of the run that a person means."""
        run_id = find_run(self.session, text)
        span = run_span(self.session, run_id, self.settings.timezone)
        return self.with_details(self.run_document(run_id, span))

    def run_document(self, run_id: str, span: Period | None, generation: str | None = None) -> RunDocument:
        """Return the report of a run without what looks beyond the ledger; `span` is None while it has no hours."""
        found = self.of_run(run_id, span) if span else []
        return run_report(
            self.session,
            run_facts(self.session, run_id),
            span,
            self.settings,
            self.documents(own_findings(found, run_id), span) if span else (),
            self.run_advice(found, span) if span else [],
            self.loss_source.timeline(self.session, run_id, SPARK_POINTS),
            generation,
        )

    def of_run(self, run_id: str, span: Period) -> list[Finding]:
        """Return the findings of one run in its own hours, under the ids that they have in the fleet's list."""
        within = (span.start, span.end)
        return self.once(
            ("findings", *within, run_id), lambda: self.loss_source.findings(self.session, *within, run_id)
        )

    def with_details(self, report: RunDocument) -> RunDocument:
        """Return the report of a run with its efficiency, energy, page, and what was ruled out of its findings."""
        run_id, span = report.facts.run_id, report.span
        asked = (list(report.findings), span)
        details = {
            "efficiency": run_efficiency(self.session, report, self.step_log, samples=self.samples),
            "energy": run_energy(self.session, run_id, span, non_gpu_rates(self.settings)),
            "service": run_service(self.session, run_id),
            "ruled_out": {
                one.id: argue(self.session, one, *asked, with_signs=False).ruled_out for one in worth_showing(report)
            },
        }
        return report.model_copy(update=details)

    def traffic(self, run_id: str, span: Period) -> RunTraffic | None:
        """Return what a run moved between hosts and beyond, or None where it held no host that is known."""
        return read_traffic(self.session, [run_id], span.start, span.end, tariff_book(self.settings)).get(run_id)

    def findings(self, period: Period) -> list[Finding]:
        """Return what the analyzer found in a period."""
        span = (period.start, period.end)
        return self.once(("findings", *span), lambda: self.loss_source.findings(self.session, *span, None))

    def advice(self, found: list[Finding], period: Period) -> list[Recommendation]:
        """Return what the analyzer recommends now against these findings, most saved first."""
        return [one for one in self.all_advice(found, period) if one.stands]

    def advised(self, period: Period) -> list[Recommendation]:
        """Return what the analyzer recommends now against the findings of a period."""
        return self.advice(self.findings(period), period)

    def run_advice(self, found: list[Finding], period: Period) -> list[Recommendation]:
        """Return what answers one run's findings now: at once, for no sample is looked at, and no plan is made."""
        return [one for one in self.all_advice(found, period, of_run=True) if one.stands]

    @property
    def advice_options(self) -> AdviceOptions:
        """What recommendations are made by."""
        return AdviceOptions(self.settings, self.once)

    def all_advice(self, found: list[Finding], period: Period, *, of_run: bool = False) -> list[Recommendation]:
        """Return also what a guard holds back, and what is instead of a better one, each with its reason.

        What is saved a week is scaled from the hours that are known of the period.
        """
        period = known_part(self.session, period)
        priced = by_saving(
            self.advice_options.advised(self.loss_source.recommendations, self.session, found, period, of_run=of_run)
        )
        if not priced:
            return []
        gpus = sum(sku.gpus for sku in fleet(self.session, period))
        now = newest_hour_end(self.session) or period.end
        moment = Moment(period.end, now, self.clock(), gpus, rejections(self.session))
        return guarded(priced, moment, self.settings.guards)

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what is made once: for this request, and in a server for all who read this state of the ledger."""
        if what not in self._made:
            self._made[what] = make() if self.kept is None else self.kept.get(self.session, what, make)
        return self._made[what]  # type: ignore[return-value]  # a key names what is of one type

    def case(self, period: Period) -> FindingHistory:
        """Return what is kept of the findings of a period: lives, judgements, mutes."""
        return read_case(self.session, period, self.clock())

    def documents(
        self, found: Sequence[Finding], period: Period, whole: Sequence[Finding] | None = None
    ) -> tuple[FindingDocument, ...]:
        """Return findings of a period with what is kept of them; as displayed, those of the `whole` list add up."""
        return finding_documents(found, period, self.settings.currency, self.case(period), whole)

    def last_seen(self, finding_id: str) -> Period | None:
        """Return the week in which the ledger last saw a finding; None where its book has none of this id."""
        life = lives(self.session, self.now()).get(finding_id)
        return None if life is None else self.calendar.week_of(life.updated_at - 1)

    def explain(self, finding_id: str | None, period: Period) -> Explained:
        """Return one finding of a period with all that argues for and against it.

        Raises:
            LedgerError: the period has none of this id.
        """
        found = self.findings(period)
        absent = (
            f"this period has no finding {finding_id!r}: gpuledger findings lists them; --since selects another period"
        )
        finding = by_id(found, finding_id or "", absent)
        return Explained(
            period,
            self.settings.currency,
            self.documents([finding], period, found)[0],
            self.argued(finding, found, period),
            tuple(one for one in self.offer(period).advice if one.stands and finding.id in one.finding_ids),
        )

    def argued(self, finding: Finding, found: list[Finding], period: Period, *, with_signs: bool = True) -> Argument:
        """Return what argues for and against one finding of a period; `found` are all of them."""
        return argue(self.session, finding, found, period, with_signs=with_signs)

    def list_findings(self, period: Period, *, everything: bool = False, sure: str | None = None) -> FindingsReport:
        """Return the findings of a period and how they moved since the one before."""
        before = like_before(self.session, period, self.calendar)
        is_known = known_hours(self.session, before).complete
        return findings_report(
            period,
            self.settings.currency,
            self.findings(period),
            self.findings(before) if is_known else None,
            rules_in(self.unjudged(period)),
            self.looked(period).notices,
            everything=everything,
            sure=sure,
            case=self.case(period),
            still=still_costs(self.session, self.findings(period)),
            measured=measured(self.session, period),
        )

    def looked(self, period: Period) -> PeriodNotices:
        """Return what is worth a look in a period."""
        return self.advice_options.looked(self.session, period.start, period.end)

    def has_looked(self, period: Period) -> bool:
        """Whether that is known already."""
        return self.kept is not None and self.kept.has(self.session, name_of_notices(period.start, period.end))

    def unjudged(self, period: Period) -> list[Unjudged]:
        """Return every rule that lacked a signal in a period, of the ledger's and of the notices'."""
        return [*unjudged(self.session, period), *self.looked(period).unjudged]

    def offer(self, period: Period) -> Offer:
        """Return what is recommended of a period."""
        found = self.findings(period)
        made = self.once(("offered", period.start, period.end), lambda: self.all_advice(found, period))
        return Offer(made, found, period)

    def offered(self, typed: str, period: Period) -> Offer:
        """Return the reading that offers a recommendation under this id, of whatever report or message it was read.

        That is the period's, else that of one of its runs, of a week in which one ran, of the book's newest prediction
        of it, of the days of which alarms tell, or of one of the ledger's last weeks: of hosts without a run nothing
        else says when. It is the period's where none does. Held back ones are known as well.
        """
        asked = self.offer(period)
        if asked.has(typed) or len(typed.partition("-")[2]) < TYPED_LEAST:
            return asked
        return next((one for one in self._offers_elsewhere(typed) if one.has(typed)), asked)

    def _offers_elsewhere(self, typed: str) -> Iterator[Offer]:
        runs = list(runs_of(self.session, typed))
        spans = [run_span(self.session, run_id, self.settings.timezone) for run_id in runs]
        for run_id, span in zip(runs, spans, strict=True):
            found = self.of_run(run_id, span)
            yield Offer(self.all_advice(found, span, of_run=True), found, span)
        weeks = [self.calendar.week_of(span.end - 1) for span in spans]
        kept = (one for one in predictions(self.session) if one.recommendation_id.startswith(typed))
        weeks += [self.calendar.week_of(one.span.start) for one in kept]
        known = {(week.start, week.end): week for week in weeks}
        for start in sorted(known, reverse=True)[:_WEEKS_MOST]:
            yield self.offer(known[start])
        days = self.period(ALARMS_PERIOD)
        found, what = self.findings(days), ("offered by alarms", days.start, days.end)
        yield Offer(self.once(what, lambda: self.all_advice(found, days, of_run=True)), found, days)
        first, last = self.session.row("SELECT min(hour), max(hour) FROM ledger_hours")
        week = None if last is None else self.calendar.week_of(last)
        for _ in range(_WEEKS_MOST):
            if week is None or week.end <= first:
                return
            if (week.start, week.end) not in known:
                yield self.offer(week)
            week = self.calendar.before(week)
