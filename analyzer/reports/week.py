"""The report of a period: what the fleet's GPU time was, exact and unrounded. Pure data; renderers stand apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.wire.units import HOUR_US, WEEK_US
from analyzer.findings.finding import Finding
from analyzer.findings.judgement import Record, judgements, record_of
from analyzer.finops.charges.closing import Edited
from analyzer.finops.charges.sums import Charged
from analyzer.finops.reconcile.invoice_matches import InvoiceMatch, last_match
from analyzer.ledger import coverage
from analyzer.ledger.coverage import Hours, Measured, NotJudged, Sku, Unheld, like_before
from analyzer.ledger.pending import closes_at, final_at
from analyzer.period import Calendar, Period, micros
from analyzer.prices.price_book import Repriced
from analyzer.queries.ledger_query import Breakdown, BreakdownEntry, breakdown
from analyzer.recommendations.lifecycle.realised import Realised
from analyzer.recommendations.recommendation import Recommendation
from analyzer.reports.groups import GroupRow, Groups, MeasuredWith, by_what, teams
from analyzer.reports.recommendation_words import is_predicted
from analyzer.reports.request import LedgerFilter
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class WeekReport:
    """Where the GPU time of a period went. `previous` is of as many hours before; None where they are not all known.

    `closes_at` and `final_at` are when its last hour closes and is final by the site's calendar, microseconds UTC.
    """

    period: Period
    currency: str
    cluster: str | None
    fleet: tuple[Sku, ...]
    hours: Hours
    breakdown: Breakdown
    previous: Breakdown | None
    teams: tuple[GroupRow, ...]
    findings: tuple[Finding, ...]
    recommendations: tuple[Recommendation, ...]
    measured: Measured
    not_judged: tuple[NotJudged, ...]
    corrections: tuple[BreakdownEntry, ...]
    closes_at: int
    final_at: int
    record: Record | None = None
    checked: tuple[Realised, ...] = ()  # what came of changes that were made in the weeks before its end
    invoice: InvoiceMatch | None = None  # the last word on the invoice that its prices rest on
    charged: tuple[Charged, ...] = ()  # what teams are charged; empty where no [[charge]] says other than their cost
    grouped: Groups | None = None  # where the table of teams is to be one of models or the like
    repriced: Repriced | None = None  # hours that the present prices have not reached
    edited: Edited | None = None  # what was edited after its hours had closed for finance
    by_what: tuple[MeasuredWith, ...] = ()  # by which signal the measured time was judged
    part: LedgerFilter | None = None  # of which runs it is, where not of all; then nothing in it is what nobody held
    unheld: Unheld | None = None  # what nobody held, and how much of it was at work

    @property
    def avoidable(self) -> Breakdown:
        """What may be called waste."""
        return self.breakdown.of("avoidable")

    @property
    def by_team(self) -> Groups:
        """The teams."""
        return Groups("team", self.teams)

    @property
    def table(self) -> Groups:
        """What its second table is by."""
        return self.by_team if self.grouped is None else self.grouped.shortened()

    def named(self, cluster: str) -> "WeekReport":
        """Return it with the name that the settings give the fleet; "fleet", the default, names nothing."""
        return self if cluster == "fleet" else replace(self, cluster=cluster)


def week_report(
    session: Session,
    period: Period,
    calendar: Calendar,
    currency: str,
    findings: Sequence[Finding],
    recommendations: Sequence[Recommendation],
) -> WeekReport:
    """Read the ledger of a period."""
    before = like_before(session, period, calendar)
    comparable = coverage.known_hours(session, before).complete
    return WeekReport(
        period,
        currency,
        coverage.cluster(session, period),
        coverage.fleet(session, period),
        coverage.known_hours(session, period),
        breakdown(session, period),
        breakdown(session, before) if comparable else None,
        teams(session, period),
        tuple(findings),
        by_saving(recommendations),
        coverage.measured(session, period),
        coverage.not_judged(session, period),
        coverage.corrections(session, period),
        micros(closes_at(period.end - HOUR_US, calendar)),
        micros(final_at(period.end - HOUR_US, calendar)),
        record_of(judgements(session)),
        invoice=last_match(session, period),
        by_what=by_what(session, period),
        unheld=coverage.unheld(session, period),
    )


def by_saving(recommendations: Sequence[Recommendation]) -> tuple[Recommendation, ...]:
    """Return recommendations, those that save most first: money where all of them are priced, else time."""
    priced = _are_priced(recommendations)

    def saving(recommendation: Recommendation) -> int:
        saves = recommendation.saves_micros if priced else recommendation.saves_milliseconds
        return saves.p50 if saves else 0

    return tuple(sorted(recommendations, key=lambda recommendation: (-saving(recommendation), recommendation.id)))


def best_next_step(recommendations: Sequence[Recommendation]) -> Recommendation | None:
    """Return what to do first: most saved a week after moving is paid for; a price nobody knows comes last.

    It is money where all of them are priced, else time; what can only be tried is none, nor what ends somebody's work.
    """
    recommendations = [one for one in recommendations if is_predicted(one) and not one.ends_work]
    priced = _are_priced(recommendations)

    def net(recommendation: Recommendation) -> tuple[bool, int, int]:
        time = recommendation.in_span(recommendation.saves_milliseconds, WEEK_US).p50
        if not priced or recommendation.saves_micros is None:
            return True, time - recommendation.cost_to_move_milliseconds, 0
        cost = recommendation.cost_to_move_micros
        saved = recommendation.in_span(recommendation.saves_micros, WEEK_US).p50
        return cost is not None, saved - (cost or 0), time

    return max(recommendations, key=net, default=None)


def _are_priced(recommendations: Sequence[Recommendation]) -> bool:
    return all(recommendation.saves_micros is not None for recommendation in recommendations)
