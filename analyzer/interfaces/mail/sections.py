"""The sections of a mail below its actions: savings, teams, month, requests, corrections, energy, data quality."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

from agent.wire.units import HOUR_MS, MICROS
from analyzer.capacity.gate.decided import Decided
from analyzer.capacity.gate.decided import line as request_line
from analyzer.finops.anomalies import Anomalies, anomalies, anomaly_words
from analyzer.finops.budgets.month import BudgetLine, MonthReport, budget_book, month_report
from analyzer.finops.budgets.text import between, method_words, over_words, since_words
from analyzer.finops.charges.closing import edited_words
from analyzer.finops.charges.sums import Charged
from analyzer.finops.non_gpu_costs.costs import energy_of, read_drawn
from analyzer.finops.non_gpu_costs.energy import EnergySum, non_gpu_rates, summed_energy
from analyzer.finops.non_gpu_costs.text import energy_words, rows_told
from analyzer.finops.reconcile.invoice_matches import match_words
from analyzer.finops.unit_cost.report import UnitReport, unit_report
from analyzer.finops.unit_cost.text import change_words
from analyzer.interfaces.mail.content import Extras, Month, Section, Table
from analyzer.interfaces.text.finding_text import record_words
from analyzer.interfaces.text.savings_text import came_words, predicted_words
from analyzer.interfaces.text.sentences import data_gap_words, unpriced_words
from analyzer.interfaces.text.week_text import measured_with_words, silent_words, status_words
from analyzer.ledger.breakdown import column_like
from analyzer.ledger.pending import CLOSES_AFTER
from analyzer.period import Calendar, Period, local
from analyzer.prices.price_book import repriced_words
from analyzer.queries.ledger_query import BreakdownEntry, Counted, fold, known_sum
from analyzer.queries.statements import statements
from analyzer.reports.week import WeekReport, charge_lines, team_lines
from analyzer.text.words import (
    UNKNOWN,
    at_least,
    counted,
    day,
    decimal,
    gpu_hours,
    hours_decimals,
    kind_of,
    money,
    money_decimals,
    nearest,
    percent,
    plain,
    symbol,
)
from collector.store.session import Session

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader

_WEEKS_READ = 53  # what is older is the books' of a year that is over
_WEEKS_SHOWN = 6
CLOSES_AFTER_US = CLOSES_AFTER // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Corrections:
    """What was moved, by the label of the week, team (None: no team's) and state; amounts are differences.

    `totals` are what these weeks cost by their reports, by label and team, in millionths; None: not all is priced.
    """

    currency: str
    rows: tuple[tuple[str, str | None, Counted], ...] = ()
    totals: "Mapping[tuple[str, str | None], int | None]" = field(default_factory=dict)

    @classmethod
    def read(cls, session: Session, calendar: Calendar, period: Period, currency: str) -> "Corrections":
        """Read what was recorded from when the week before `period` closed until `period` does; of a week alone."""
        if kind_of(period) != "week":
            return cls(currency)
        weeks = [calendar.before(period)]
        while len(weeks) < _WEEKS_READ:
            weeks.append(calendar.before(weeks[-1]))
        labels = {week.start: week.label for week in weeks}
        query, total = statements("interfaces/mail/corrected.sql")
        asked = {
            "starts": sorted(labels), "end": period.start,
            "since": period.start + CLOSES_AFTER_US, "until": period.end + CLOSES_AFTER_US,
        }  # fmt: skip
        rows = session.rows(query, asked)
        told = [week for week in weeks if week.start in {start for start, *_ in rows}][:_WEEKS_SHOWN]
        closed: dict[str, object] = {"weeks": [week.start for week in told], "ends": [week.end for week in told]}
        costs = session.rows(total, closed) if told else []
        return cls(
            currency,
            tuple((labels[week], team, tuple(count)) for week, team, *count in rows),
            {(labels[week], team): None if is_part else micros for week, team, _, micros, is_part in costs},
        )

    def lines(self, team: str | None) -> tuple[str, ...]:
        """Return a sentence a week, the newest first: of the fleet (None), or of one team's time alone."""
        weeks = sorted({label for label, _, _ in self.rows}, reverse=True)
        by_week = {
            label: fold(count for each, whose, count in self.rows if each == label and team in (None, whose))
            for label in weeks
        }
        told = [
            f"{label}: {_moved_words(entries, self.currency, self._total(label, team))}."
            for label, entries in by_week.items()
            if entries
        ]
        more = [f"and earlier weeks: gpuledger report {weeks[_WEEKS_SHOWN]}"] if len(told) > _WEEKS_SHOWN else []
        return (*told[:_WEEKS_SHOWN], *more)

    def _total(self, label: str, team: str | None) -> int | None:
        """Return what a week cost by its report: all of it (None), or one team's time; None where that is not known."""
        own = [cost for (week, whose), cost in self.totals.items() if week == label and team in (None, whose)]
        known = [cost for cost in own if cost is not None]
        return sum(known) if known and len(known) == len(own) else None


def _moved_words(entries: Iterable[BreakdownEntry], currency: str, total: int | None) -> str:
    """Return "productive -16.0 GPU-hours, -$41.60; lost work +16.0 GPU-hours, +$41.60; the total is unchanged".

    `total` is what was told of all of it, None where that is not known; where it moves, by how much stands before it.
    """
    every = tuple(entries)
    said = [f"{one.label} {_moved(one.milliseconds, one.cost_micros, currency)}" for one in every]
    time, cost = sum(one.milliseconds for one in every), known_sum(one.cost_micros for one in every)
    if not time and not cost:
        return "; ".join(
            [
                *said,
                "the total is unchanged" if total is None else f"the total is unchanged at {money(total, currency)}",
            ]
        )
    beside = "" if total is None else f", on a total of {money(total, currency)}"
    return "; ".join([*said, f"in total {_moved(time, cost, currency)}{beside}"])


def _moved(milliseconds: int, micros: int | None, currency: str) -> str:
    time = f"{'+' if milliseconds > 0 else ''}{gpu_hours(milliseconds)} GPU-hours"
    return time if micros is None else f"{time}, {'+' if micros > 0 else ''}{money(micros, currency)}"


_NOT_ADDED = "It is already included in the prices above."


def _energy_sentences(sums: Sequence[EnergySum], currency: str) -> tuple[str, ...]:
    """Return what the fleet's GPUs drew, with the hall and carbon where rows say them; nothing where none was told."""
    if not sums:
        return ()
    whole = summed_energy(sums)
    basis = f" ({rows_told(whole)})" if whole.rows else ""
    return (f"{energy_words(whole, currency)}{basis}. {_NOT_ADDED}",)


# What is done about the largest line where no recommendation is against it: nobody's run can be changed to end it.
_LARGEST: Mapping[str, str] = {
    "unallocated": "No run held them: gpuledger capacity demand says how many runs asked for and waited for, and how "
    "many to own, reserve and rent.",
    "reserved, unused": "Reservations held them, and no run used them: end or shorten those (scontrol show "
    "reservation).",
    "drained": "They were out of service: the Health page says which hosts, since when and why.",
    "serving headroom": "Services keep them for their peaks: the services file says how much.",
    "fragmented": "Slices that fit no run: choose another geometry, or give whole GPUs.",
    "communication": "Collectives of runs: larger batches, overlap, fewer hosts; gpuledger report run ID has each run.",
    "checkpointing": "Less often, asynchronously, or to faster storage; gpuledger report run ID has each run.",
    "starting": "Images and weights are loaded: keep them on the hosts; gpuledger report run ID has each run.",
    "low utilization, unexplained": "No cause is proven: gpuledger findings --unjudged says which signal is missing.",
    "not measured": "Nobody measured it: the Health page and gpuledger admin doctor say which hosts are silent.",
}
_CHECKED_SHOWN = 3
_NODES_SHOWN = 3
_RULES_SHOWN = 4
_TEAMS_SHOWN = 40  # of more, the rest is one line: a mail has at most 100 KB of HTML
_OVER = " !"


def sections(
    report: WeekReport, extras: Extras, oldest_price: date | None, team: str | None = None
) -> tuple[Section, ...]:
    """Return the sections in their order; one that would say nothing is left out whole."""
    every = (
        _largest(report, extras) if team is None else None,
        _checked(report),
        _teams(report, extras),
        _charged(report),
        extras.anomalies,
        extras.requests,
        _corrections(report, extras),
        extras.energy,
        _how_sure(report, extras, oldest_price),
    )
    return tuple(section for section in every if section is not None and not section.is_empty)


def _largest(report: WeekReport, extras: Extras) -> Section | None:
    """Return what to do about the fleet's largest line that is not useful; what is avoidable has recommendations."""
    breakdown = report.breakdown
    rest = [entry for entry in breakdown.entries if entry.klass != "useful"]
    entry = max(rest, key=lambda one: (breakdown.weight(one), one.milliseconds), default=None)
    if entry is None or (words := _LARGEST.get(entry.label)) is None:
        return None
    share = percent(breakdown.weight(entry), breakdown.total_weight)
    paid = (
        f"{money(entry.cost_micros, report.currency, money_decimals(breakdown.cost_micros))}, "
        if breakdown.priced
        else ""
    )
    hours = gpu_hours(entry.milliseconds, hours_decimals(entry.milliseconds))
    told = f"{entry.label[0].upper()}{entry.label[1:]}: {paid}{share} of all, {hours} GPU-hours. "
    if entry.label == "unallocated" and extras.least_free:
        told += f"{counted(extras.least_free, 'GPU')} or more were free in every hour. "
    return Section("the largest line that is not useful", (told + words,))


def _checked(report: WeekReport) -> Section:
    found = []
    for one in report.checked[:_CHECKED_SHOWN]:
        prediction = one.prediction
        done = day(local(one.applied_at or 0, report.period.timezone)).partition(" ")[2]
        title = f"{plain(prediction.subject)}: {plain(prediction.title)} ({one.id}, done {done})"
        found.append(f"{title}: {predicted_words(one, report.currency)} per week; {came_words(one, report.currency)}.")
    return Section("results of past recommendations", tuple(found))


def _teams(report: WeekReport, extras: Extras) -> Section | None:
    if not report.teams:
        return extras.month
    printed = team_lines(report)
    sign = symbol(report.currency).strip()
    is_priced = printed[0].money is not None
    head = ("", f"week {sign}" if is_priced else "GPU-hours", f"avoidable {sign if is_priced else 'h'}", "useful")
    rows = {
        (row.name, row.held): (
            _name((row.name, row.held)),
            line.money if line.money is not None else line.hours,
            line.avoidable,
            line.useful,
        )
        for row, line in zip(report.teams, printed, strict=False)
    }
    last = printed[-1]
    total = (last.name, last.money if last.money is not None else last.hours, last.avoidable, last.useful)
    if not extras.months:
        return Section("teams", (), Table(head, tuple(_folded([*rows.values(), total]))))
    keys = _with_idle(list(rows), extras)
    more, columns = _months([extras.months.get(key, Month(0, 0)) for key in keys])
    shown = [*(rows.get(key, (_name(key), "0", UNKNOWN, UNKNOWN)) for key in keys), total]
    table = [(*row, *column) for row, column in zip(shown, columns, strict=True)]
    return Section("teams", extras.of_months, Table(head + more, tuple(_folded(table))))


def _charged(report: WeekReport) -> Section | None:
    """Return what teams are charged where that is not their cost, as the report has it; to a team its own alone."""
    sign = symbol(report.currency).strip()
    if not report.teams:
        own = [one for one in report.charged if one.difference_micros]
        return Section("charged", tuple(_own_charge(one, report.currency) for one in own))
    rows: list[tuple[str, ...]] = [(line.name, line.cost, line.charged, line.left) for line in charge_lines(report)]
    head = ("", f"cost {sign}", f"charged {sign}", f"platform bears {sign}")
    return Section("charged", (), Table(head, tuple(_folded(rows)))) if rows else None


def _own_charge(one: Charged, currency: str) -> str:
    cost, charged, left = one.cost_micros, one.charged_micros, one.difference_micros or 0
    decimals = money_decimals(cost)
    told = f"{money(charged, currency, decimals)}, for GPUs that cost {money(cost, currency, decimals)}"
    rest = money(abs(left), currency, decimals)
    return f"{told}: the platform {'bears' if left > 0 else 'keeps'} the remaining {rest}."


def _with_idle(keys: list[tuple[str | None, bool]], extras: Extras) -> list[tuple[str | None, bool]]:
    """Return the week's rows, and before what nobody held those that the month knows and this week does not."""
    absent = [key for key in extras.months if key not in keys]
    held = [key for key in keys if key[1]] + [key for key in absent if key[1]]
    return held + [key for key in [*keys, *absent] if not key[1]]


def _name(key: tuple[str | None, bool]) -> str:
    team, held = key
    return "nobody" if not held else plain(team) if team is not None else "unmapped"


def _months(months: list[Month]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns of the month, each summing to its last row; the end is left out where one is not known."""
    marks = [month.is_part for month in months]
    exact = _column([month.so_far_micros for month in months])
    so_far = [at_least(cell, is_part) for cell, is_part in zip(exact, [*marks, any(marks)], strict=True)]
    ends = [month.month_end_micros for month in months if month.month_end_micros is not None]
    if len(ends) < len(months):
        return ("month to date",), [(cell,) for cell in so_far]
    over = [*(_OVER if month.is_over else "" for month in months), ""]
    expected = [cell + mark for cell, mark in zip(_column(ends), over, strict=True)]
    return ("month to date", "month-end"), list(zip(so_far, expected, strict=True))


def _column(exact: Sequence[int | None]) -> list[str]:
    total = nearest(sum(micros or 0 for micros in exact), MICROS)
    return [*column_like(total, exact, MICROS, 0), decimal(total, 0)]


def _folded(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows, at most so many: what is left out is named, and the total stands."""
    if len(rows) <= _TEAMS_SHOWN + 1:
        return rows
    left = len(rows) - 1 - _TEAMS_SHOWN
    return [*rows[:_TEAMS_SHOWN], (f"and {left:,} more", *[""] * (len(rows[0]) - 1)), rows[-1]]


def _corrections(report: WeekReport, extras: Extras) -> Section:
    """Return what was learned of this week and of earlier ones after they had closed: lines, no figure is rewritten."""
    total = None if report.breakdown.unpriced else report.breakdown.cost_micros
    own = _moved_words(report.corrections, report.currency, total) if report.corrections else ""
    words = [f"Since {report.period.label} closed, and not in the figures above: {own}."] if own else []
    return Section("corrections", (*words, *extras.corrections))


def _how_sure(report: WeekReport, extras: Extras, oldest_price: date | None) -> Section:
    said = [
        _measured(report),
        *_by_what(report),
        *_settled(report),
        *_prices(report, extras, oldest_price),
        *_not_judged(report),
    ]
    if report.record is not None:
        said.append(f"Accuracy: {record_words(report.record)}.")
    return Section("data quality and accuracy", tuple(said))


def _measured(report: WeekReport) -> str:
    held, silent = report.measured.held_milliseconds, report.measured.not_measured_milliseconds
    if not held:
        return "No run is known to have held a GPU."
    share = decimal((held - silent) * 1000 // held, 1)  # rounded down, as in the report: 100 means all
    nodes = [silent_words(node, report.period.timezone) for node in report.measured.nodes[:_NODES_SHOWN]]
    silences = f" ({'; '.join(nodes)})" if nodes else ""
    return f"{share}% of held GPU-hours measured{silences}."


def _by_what(report: WeekReport) -> list[str]:
    words = measured_with_words(report.by_what)
    return [f"Measured with: {words}."] if words else []


def _settled(report: WeekReport) -> list[str]:
    if report.hours.complete and report.hours.status in ("closed", "final"):
        return []
    return [f"The week is {status_words(report)}: its figures may still change."]


def _prices(report: WeekReport, extras: Extras, oldest_price: date | None) -> list[str]:
    words = [f"{one}." for one in unpriced_words(report.breakdown, report.currency)]
    if not report.hours.price_versions:
        return words or ["No prices are known."]
    books = ", ".join(version[:12] for version in report.hours.price_versions)
    age = ""
    if oldest_price is not None:
        days = (report.period.last_day - oldest_price).days
        age = f", oldest price from {oldest_price.isoformat()}, {counted(max(0, days), 'day')} old at the week's end"
    matched = extras.invoice or (match_words(report.invoice) if report.invoice else "not reconciled with an invoice")
    told = [*repriced_words(report.repriced), *edited_words(report.edited)]
    stale = [f"{one[0].upper()}{one[1:]}." for one in told]
    return [f"Price list {books}{age}; {matched}.", *stale, *words]


def _not_judged(report: WeekReport) -> list[str]:
    judged = [data_gap_words(rule) for rule in report.not_judged]
    if not judged:
        return []
    more = len(judged) - _RULES_SHOWN
    rest = [f"and {counted(more, 'rule')} more"] if more > 0 else []
    return [
        f"Insufficient data: {'; '.join([*judged[:_RULES_SHOWN], *rest])} (full list: gpuledger findings --unjudged)."
    ]


_ODD_SHOWN = 5  # of changes of unit cost, and of teams
REQUESTS_SHOWN = 20  # a mail of thousands would be too large for its own bound, and nobody would get it


@dataclass(frozen=True, slots=True)
class Joined:
    """What was read once for all mails of a period; `month` is as known at the period's end, None without prices."""

    month: MonthReport | None
    odd: Anomalies
    units: UnitReport
    asked: tuple[Decided, ...] = ()
    energy: tuple[EnergySum, ...] = ()
    corrections: Corrections | None = None
    least_free: int = 0  # GPUs that nobody held in any hour of the period

    @classmethod
    def read(cls, reader: "Reader", period: Period, asked: Sequence[Decided] = ()) -> "Joined":
        """Read all of it; `asked` are the capacity requests of the period."""
        session, calendar, currency = reader.session, reader.calendar, reader.settings.currency
        whole = calendar.month_of(period.end - 1)
        allowed = budget_book(reader.settings).of(whole.first_day)
        month = month_report(session, whole, period.end, currency, allowed)
        return cls(
            month if month is not None and month.fleet.spent_micros else None,
            anomalies(session, period, currency),
            unit_report(session, period, calendar, currency),
            tuple(asked),
            energy_of(read_drawn(session, period), session, period, non_gpu_rates(reader.settings)),
            Corrections.read(session, calendar, period, currency),
            _least_free(session, period),
        )

    def extras(self, team: str | None) -> Extras:
        """Return what belongs into the mail of the fleet (None), or into that of one team."""
        found = Extras(
            anomalies=Section("anomalies", tuple(self._odd(team))),
            requests=Section("capacity requests", request_lines(self.asked, team)),
            corrections=self.corrections.lines(team) if self.corrections else (),
            energy=Section("energy", _energy_sentences(self.energy, self.odd.currency) if team is None else ()),
            least_free=self.least_free if team is None else 0,
        )
        if self.month is None:
            return found
        if team is not None:
            return replace(found, month=Section("spend to date and forecast", tuple(_own_month(self.month, team))))
        months = {(line.team, line.held): _month(line) for line in self.month.lines}
        told = [f"{over_words(line, self.month.currency)}." for line in self.month.every if line.is_over]
        told += _month_end(self.month)
        told += [since] if (since := since_words(self.month)) else []
        return replace(found, months=months, of_months=tuple(told))

    def _odd(self, team: str | None) -> list[str]:
        """Return sentences on what cost more than before: of one team those on its own work alone."""
        zone = self.odd.period.timezone
        found = [(line, change) for line, change in self.units.changes if team is None or line.team == team]
        said = [change_words(line, change, self.odd.currency, zone) for line, change in found[:_ODD_SHOWN]]
        teams = [one for one in self.odd.found if team is None or one.team == team]
        return [*said, *(anomaly_words(one, self.odd) for one in teams[:_ODD_SHOWN])]


def _least_free(session: Session, period: Period) -> int:
    """Return how many GPUs at least were free in every hour that is known of a period."""
    (least,) = session.row(
        "SELECT coalesce(min(coalesce(free_ms, 0)), 0) FROM ledger_hours LEFT JOIN ("
        "SELECT hour, sum(milliseconds) AS free_ms FROM ledger WHERE state = 'unallocated' AND cause = 'free' "
        "AND hour >= $start AND hour < $end GROUP BY hour) USING (hour) WHERE hour >= $start AND hour < $end",
        {"start": period.start, "end": period.end},
    )
    return int(least) // HOUR_MS


def request_lines(asked: Sequence[Decided], team: str | None) -> tuple[str, ...]:
    """Return a line for each request of a team, or of all (None); of more than a reader reads, how many are left."""
    own = [one for one in asked if team in (None, one.request.team)]
    lines = tuple(request_line(one) for one in own[:REQUESTS_SHOWN])
    left = len(own) - REQUESTS_SHOWN
    return (*lines, f"and {left:,} more (full list: gpuledger capacity request list)") if left > 0 else lines


def _month_end(month: MonthReport) -> list[str]:
    """Return what the fleet's month is expected to cost, within which interval, and by which method."""
    ending = month.fleet.ending
    if ending is None or not (method := method_words(ending)):
        return []
    about = money(ending.expected_micros, month.currency, money_decimals(ending.expected_micros))
    interval = f"{between(month.fleet)}, four months in five" if between(month.fleet) else ""
    least = "at least" if month.fleet.is_part else "about"
    return [f"{month.period.label} will cost {least} {about}{interval}. {method}"]


def _month(line: BudgetLine) -> Month:
    ends = line.ending.expected_micros if line.ending is not None else None
    return Month(line.spent_micros, ends, line.is_over, line.is_part)


def _own_month(month: MonthReport, team: str) -> list[str]:
    line = next((one for one in month.lines if one.held and one.team == team), None)
    if line is None:
        return []
    ending = line.ending if line.ending is not None and line.ending.model is not None else None
    allowed = line.budget.micros_per_month if line.budget is not None else 0
    if line.spent_micros is None:
        return [f"{month.period.label} to date: not known, none of its GPU time has a price."]
    decimals = money_decimals(max(line.spent_micros, allowed, ending.expected_micros if ending else 0))
    spent = at_least(money(line.spent_micros, month.currency, decimals), line.is_part)
    said = f"{month.period.label} to date: {spent}"
    if line.is_over:
        return [f"{said}.", f"{over_words(line, month.currency)}."]
    if ending is not None:
        about = "at least" if line.is_part else "about"
        expected = money(ending.expected_micros, month.currency, decimals)
        said += f"; forecast for its end {about} {expected}{between(line)}"
    if line.budget is not None:
        said += f"; the budget is {money(allowed, month.currency, decimals)}"
    return [f"{said}.", *([method] if (method := method_words(ending)) else [])]
