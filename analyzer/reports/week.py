"""A period as one report, and the tables of its groups. Pure data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.wire.units import HOUR_MS, HOUR_US, MICROS, WEEK_US
from analyzer.findings.finding import Finding
from analyzer.findings.judgement import Record, judgements, record_of
from analyzer.finops.charges.closing import Edited
from analyzer.finops.charges.sums import Charged
from analyzer.finops.reconcile.invoice_matches import InvoiceMatch, last_match
from analyzer.ledger import coverage
from analyzer.ledger.breakdown import column_like, rounded
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
from analyzer.text.words import UNKNOWN, apportion, at_least, decimal, hours_decimals, money_decimals, nearest, percent
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


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One printed line. `money` is None where the column is left out; `avoidable` is then GPU-hours."""

    name: str
    hours: str
    money: str | None
    useful: str
    avoidable: str
    level: str = "row"


def team_lines(report: WeekReport) -> tuple[GroupLine, ...]:
    """Return a line a team and the total."""
    return group_lines(report, report.by_team)


def group_lines(report: WeekReport, groups: Groups) -> tuple[GroupLine, ...]:
    """Return a line a group and the total; the columns add up, and to the figures of the report's main table."""
    rows, whole = groups.rows, report.breakdown
    hours = _column([row.breakdown.milliseconds for row in rows], HOUR_MS, hours_decimals(whole.milliseconds))
    parts = [row.breakdown.of("avoidable") for row in rows]
    if whole.cost_micros is None:
        costs: list[str | None] = [None] * (len(rows) + 1)
        lost = _column([part.milliseconds for part in parts], HOUR_MS, hours_decimals(whole.milliseconds))
    else:
        decimals = money_decimals(whole.cost_micros)
        costs = [*_column([row.breakdown.cost_micros or 0 for row in rows], MICROS, decimals)]
        lost = _avoidable_money([part.cost_micros or 0 for part in parts], report, decimals)
    told = [_told(row, parts[place], report) for place, row in enumerate(rows)]
    found = [
        GroupLine(
            groups.words(row),
            hours[place],
            _paid(costs[place], row.breakdown),
            _useful(row, report),
            _lost(lost[place], parts[place], report) if told[place] else UNKNOWN,
        )
        for place, row in enumerate(rows)
    ]
    # Of groups of which it is not known it is not known together either.
    total = _lost(lost[-1], whole.of("avoidable"), report) if any(told) or not rows else UNKNOWN
    return (*found, GroupLine("total", hours[-1], _paid(costs[-1], whole), "", total, "total"))


def _paid(told: str | None, breakdown: Breakdown) -> str | None:
    """Return what is printed of a cost: None where the column is left out, marked where it is of a part of the time."""
    if told is None:
        return None
    return at_least(told, breakdown.is_part) if breakdown.cost_micros is not None else UNKNOWN


def _lost(told: str, avoidable: Breakdown, report: WeekReport) -> str:
    """Return what is printed of the avoidable part, GPU-hours where nothing has a price."""
    return at_least(told, report.breakdown.cost_micros is not None and avoidable.is_part)


def _told(row: GroupRow, avoidable: Breakdown, report: WeekReport) -> bool:
    """Whether its avoidable part is a figure: not where nobody held or measured it, nor where it has no price."""
    if report.breakdown.cost_micros is not None and avoidable.milliseconds and avoidable.cost_micros is None:
        return False
    if row.breakdown.milliseconds and not row.breakdown.measured.milliseconds:
        return False
    return row.held or bool(avoidable.milliseconds)


def _useful(row: GroupRow, report: WeekReport) -> str:
    """Return the useful share of what was measured; a dash where nothing was."""
    if not row.held:
        return UNKNOWN
    useful, whole = row.breakdown.of("useful"), row.breakdown.measured
    if report.breakdown.priced:
        return percent(useful.cost_micros or 0, whole.cost_micros or 0)
    return percent(useful.milliseconds, whole.milliseconds)


def _column(exact: list[int], denominator: int, decimals: int) -> list[str]:
    total = nearest(sum(exact) * 10**decimals, denominator)
    return [*column_like(total, exact, denominator, decimals), decimal(total, decimals)]


def _avoidable_money(exact: list[int], report: WeekReport, decimals: int) -> list[str]:
    columns = rounded(report.breakdown)
    shown = {group[0].klass: place for place, group in enumerate(columns.groups)}.get("avoidable")
    total = columns.money.classes[shown] if columns.money is not None and shown is not None else 0
    return [*column_like(total, exact, MICROS, decimals), decimal(total, decimals)]


_OTHERS = "others, at cost"


@dataclass(frozen=True, slots=True)
class ChargeLine:
    """One printed line: what the GPUs cost, what is charged for them, and what is left to the platform."""

    name: str
    cost: str
    charged: str
    left: str
    level: str = "row"


def charge_lines(report: WeekReport) -> tuple[ChargeLine, ...]:
    """Return a line a team that is not charged what its GPUs cost, the others, and the total; () where none is.

    Costs are those that the table of teams prints; each charge is rounded by itself, and what is summed is what is
    printed. Nothing is said while some of it has no price: `gpuledger bill charges` says of whom.
    """
    by_bearer = {(one.bearer, one.held): one for one in report.charged}
    teams = report.by_team
    told = [by_bearer[row.name, row.held] for row in teams.rows] if by_bearer else []
    if not any(one.held and one.difference_micros for one in told) or None in [one.difference_micros for one in told]:
        return ()
    decimals = money_decimals(report.breakdown.cost_micros)
    exact = [(one.cost_micros or 0) * 10**decimals for one in told]
    costs = apportion(nearest(sum(exact), MICROS), exact, MICROS)
    groups: dict[str, tuple[int, int]] = {}
    for row, one, cost in sorted(zip(teams.rows, told, costs, strict=True), key=_place):
        own = bool(one.difference_micros)
        name = teams.words(row) if own or not one.held else _OTHERS
        paid = nearest((one.charged_micros or 0) * 10**decimals, MICROS) if own else cost
        before = groups.get(name, (0, 0))
        groups[name] = (before[0] + cost, before[1] + paid)
    total = (sum(cost for cost, _ in groups.values()), sum(paid for _, paid in groups.values()))
    return (*(_line(name, *each, decimals) for name, each in groups.items()), _line("total", *total, decimals, "total"))


def _place(each: tuple[GroupRow, Charged, int]) -> tuple[bool, bool]:
    """Return where it stands: teams with a rate of their own, then the others, and last what nobody held."""
    return not each[1].held, not each[1].difference_micros


def _line(name: str, cost: int, paid: int, decimals: int, level: str = "row") -> ChargeLine:
    return ChargeLine(name, decimal(cost, decimals), decimal(paid, decimals), decimal(cost - paid, decimals), level)
