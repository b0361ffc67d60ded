"""Money: what a period cost, by who or what bears it and by day, and by which prices; the page joins the month to it.

Costs are the API's, rounded so that every column adds up as it is printed.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.wire.units import HOUR_MS, MICROS
from analyzer.charts.figures import stacked_bars
from analyzer.charts.series import Chart, Trace
from analyzer.errors import ConfigError
from analyzer.finops.unit_cost.report import BACK_US, UnitReport, unit_report
from analyzer.finops.unit_cost.text import change_words, digits
from analyzer.finops.unit_cost.units import Hour, Unit
from analyzer.finops.unit_cost.units import counted as hours_of_work
from analyzer.interfaces.api.costs import Bearer, Cost, CostsAsked, costs_of
from analyzer.interfaces.api.parameters import LIMIT_MAX
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.ledger.breakdown import column_like, rounded
from analyzer.ledger.coverage import unjudged
from analyzer.period import Period, day_starts, local
from analyzer.prices.check import complaints, owned_kinds
from analyzer.prices.price_book import Derived, PriceBook, PriceRow, price_book
from analyzer.queries.ledger_query import Breakdown, breakdown, ledger_sums
from analyzer.states import CLASSES, booking
from analyzer.text.words import (
    UNKNOWN,
    counted,
    day,
    decimal,
    gpu_hours,
    hours_decimals,
    money_decimals,
    nearest,
    percent,
    plain,
    symbol,
    unjudged_words,
)
from analyzer.text.words import money as money_words
from dashboards.pages.budgets import budget_rows, budget_sheet, burn, burn_sheet, month_of
from dashboards.pages.marks import Mark, trend
from dashboards.pages.read_pages import PageState, ReadPage, ReadPages, Sheet, period_view, sheet_of
from dashboards.pages.recommendations import outcomes, outcomes_sheet

_WORK_SHOWN = 12
_UNIT_COLUMNS = {
    "name": "name", "team": "team", "unit": "unit.column", "units": "units", "milliseconds": "milliseconds",
    "cost_micros": "micros", "units_before": "units_before", "cost_micros_before": "micros_before",
}  # fmt: skip
_RUN_COLUMNS = {
    "name": "name", "team": "team", "gpus": "gpus", "runs": "runs", "milliseconds_p50": "milliseconds",
    "cost_micros_p50": "micros", "runs_before": "runs_before", "cost_micros_p50_before": "micros_before",
}  # fmt: skip


def unit_costs(context: RequestContext, period: Period) -> Mapping[str, object]:
    """Return the unit economics of a period, of what may be seen: units, each with its trend, and whole runs.

    `changes` has a sentence for each price of a unit that moved for good.
    """
    report = _unit_report(context, period)
    hours = hours_of_work(context.session, period.start - BACK_US, period.end) if report.units else {}
    days = list(day_starts(period.start - BACK_US, period.end, period.timezone))
    changes = report.changes[:_WORK_SHOWN]
    return {
        "changes": [change_words(line, change, context.currency, period.timezone) for line, change in changes],
        "units": [
            (line, _trend(hours.get((line.name, line.team), []), line.unit, days))
            for line in report.units[:_WORK_SHOWN]
        ],
        "runs": report.runs[:_WORK_SHOWN],
        "more_units": max(0, len(report.units) - _WORK_SHOWN),
        "more_runs": max(0, len(report.runs) - _WORK_SHOWN),
        "notes": report.notes,
    }


def _units_sheet(context: RequestContext, period: Period) -> Sheet:
    return sheet_of(_UNIT_COLUMNS, _unit_report(context, period).units)


def _runs_sheet(context: RequestContext, period: Period) -> Sheet:
    """Return all whole runs, exact; times and costs are of the middle one."""
    return sheet_of(_RUN_COLUMNS, _unit_report(context, period).runs)


def _unit_report(context: RequestContext, period: Period) -> UnitReport:
    return unit_report(context.session, period, context.reader.calendar, context.currency)


def _trend(hours: list[Hour], unit: Unit, days: list[int]) -> Mark | None:
    by_day = daily(hours, unit, days)
    known = [value for value in by_day if value is not None]
    return trend(by_day, f"from {digits(known[0])} to {digits(known[-1])}" if len(known) > 1 else "")


def daily(hours: list[Hour], unit: Unit, days: list[int]) -> list[float | None]:
    """Return by day what a unit's `per` cost; None for a day that told nothing, or had no price."""
    costs: list[float | None] = []
    for place, start in enumerate(days):
        end = days[place + 1] if place + 1 < len(days) else None
        own = [hour for hour in hours if start <= hour.start and (end is None or hour.start < end)]
        units, micros = sum(hour.units(unit) or 0 for hour in own), [hour.micros for hour in own]
        known = units and None not in micros
        costs.append(sum(cost or 0 for cost in micros) * unit.per / units / MICROS if known else None)
    return costs


_HERE = "/money"
BEARERS: dict[Bearer, str] = {
    "team": "team", "project": "project", "model": "model", "stage": "stage", "queue": "queue",
    "node_group": "node group", "sku": "GPU type",
}  # fmt: skip
_BEARERS_SHOWN = 30
NOBODY = "nobody (not allocated)"
_CLASS_HEADS = [f"{name}_{unit}" for name in CLASSES for unit in ("milliseconds", "cost_micros")]
_SILENT_HEADS = ("not_measured_milliseconds", "not_measured_cost_micros")
_AVOIDABLE = CLASSES.index("avoidable")


def money_routes(pages: ReadPages) -> APIRouter:
    """Return the routes of the page and of its sheets."""
    router = APIRouter()

    @router.get(_HERE)
    def page(request: Request, week: str | None = None, by: str = "team") -> Response:
        return pages.page(request, money(week, by))

    @router.get(f"{_HERE}/{{sheet}}")
    def sheet(request: Request, sheet: str, week: str | None = None, by: str = "team") -> Response:
        made = {
            "costs.csv": lambda context: _costs_sheet(context, context.reader.period(week), _bearer_of(by)),
            "days.csv": lambda context: _days_sheet(context, context.reader.period(week)),
            "budgets.csv": lambda context: budget_sheet(context, week),
            "burn.csv": lambda context: burn_sheet(context, week),
            "units.csv": lambda context: _units_sheet(context, context.reader.period(week)),
            "runs.csv": lambda context: _runs_sheet(context, context.reader.period(week)),
            "prices.csv": _price_sheet,
            "savings.csv": outcomes_sheet,
        }
        return pages.sheet(request, sheet, made)

    return router


def money(week: str | None = None, by: str = "team") -> ReadPage:
    """Return the page in one state."""
    return ReadPage(PageState(_HERE, week, {"by": by}), "money.html", lambda context: _money_view(context, week, by))


def _money_view(context: RequestContext, week: str | None, by: str) -> Mapping[str, object]:
    """Return all that the page shows.

    Raises:
        LedgerError: the ledger has no hour yet.
        ConfigError: the period cannot be read, or there is no such grouping.
    """
    period, bearer = context.reader.period(week), _bearer_of(by)
    chart = _day_chart(context, period)
    month = month_of(context, week)
    return {
        **period_view(context.reader, period),
        "sign": symbol(context.currency).strip(),
        "bearers": BEARERS,
        "by": bearer,
        "table": _cost_table(context, period, bearer),
        "chart": chart,
        "figure": stacked_bars(chart),
        "budgets": budget_rows(context, month) if month else None,
        "burn": burn(context, month) if month else None,
        "units": unit_costs(context, period),
        "prices": _price_list(context),
        "saved": outcomes(context),
        "json_link": PageState("/v1/costs", None, {"by": bearer, "since": week or ""}).link(),
    }


@dataclass(frozen=True, slots=True)
class _BearerCost:
    """What one bearer's GPU time came to, exact: in all, by class in their order, and of it what was not measured."""

    key: str | None
    name: str  # as people call it
    held: bool
    ms: int
    micros: int | None
    classes_ms: tuple[int, ...]
    classes_micros: tuple[int | None, ...]
    silent_ms: int = 0
    silent_micros: int = 0

    @property
    def weights(self) -> list[int]:
        """What shares are taken of."""
        return [weight or 0 for weight in (self.classes_micros if self.micros else self.classes_ms)]

    @property
    def measured_weight(self) -> int:
        """What a share of the measured time is taken of."""
        return sum(self.weights) - (self.silent_micros if self.micros else self.silent_ms)

    @property
    def is_silent(self) -> bool:
        """Whether nothing is known of what was avoidable of it."""
        return not self.classes_ms[_AVOIDABLE] and (not self.held or self.silent_ms >= max(1, self.ms))


def _bearer_of(word: str) -> Bearer:
    """Return a grouping by its word.

    Raises:
        ConfigError: there is no such grouping.
    """
    if word not in BEARERS:
        raise ConfigError(f"there is no grouping by {word!r}: there are {', '.join(BEARERS)}")
    return word


def _cost_table(context: RequestContext, period: Period, by: Bearer) -> Mapping[str, object]:
    """Return what the period cost by bearer, dearest first, with the total, and the sentence that answers.

    A line is a BearerCost with its GPU-hours, its money (None where nothing has a price) and what of it was avoidable,
    which is then in GPU-hours.
    """
    whole = breakdown(context.session, period)
    costs = sorted(_costs(context, period, by), key=lambda cost: (not cost.held, cost.key is None))
    rest = costs[_BEARERS_SHOWN - 2 : -1]
    others = replace(_sum_of(rest), name=f"{len(rest):,} others") if len(costs) > _BEARERS_SHOWN else None
    shown = costs if others is None else [*costs[: _BEARERS_SHOWN - 2], others, costs[-1]]
    bearers = [*shown, _sum_of(costs)] if costs else []
    hours, micros, avoidable = _columns(shown, whole)
    lines = [_line(cost, hours[place], micros[place], avoidable[place]) for place, cost in enumerate(bearers)]
    lacking = len({rule.rule for rule in unjudged(context.session, period)})
    return {
        "sentence": _sentence(period, whole, shown, by, context.currency, lacking),
        "lines": lines[:-1],
        "total": lines[-1] if lines else None,
        "is_priced": whole.cost_micros is not None,
    }


def _costs_sheet(context: RequestContext, period: Period, by: Bearer) -> Sheet:
    """Return the same, exact; the dearest thousand. A useful share is of what was measured."""
    rows = []
    for cost in _costs(context, period, by):
        classes = _in_turn(cost.classes_ms, cost.classes_micros)
        silent = (cost.silent_ms, None if cost.micros is None else cost.silent_micros)
        rows.append((cost.key, cost.held, cost.ms, cost.micros, *classes, *silent))
    return Sheet((by, "held", "milliseconds", "cost_micros", *_CLASS_HEADS, *_SILENT_HEADS), rows)


def _in_turn(milliseconds: Sequence[int], micros: Sequence[int | None]) -> Iterator[int | None]:
    for pair in zip(milliseconds, micros, strict=True):
        yield from pair


def _costs(context: RequestContext, period: Period, by: Bearer) -> list[_BearerCost]:
    def of_api(**which: list[str]) -> list[Cost]:
        asked = CostsAsked.model_validate({"by": by, "limit": LIMIT_MAX, **which})
        return costs_of(context, asked, period).items

    silent = {(getattr(cost, by), cost.held): cost for cost in of_api(state=["unobserved"])}
    return [_cost(cost, by, silent.get((getattr(cost, by), cost.held))) for cost in of_api()]


def _cost(cost: Cost, by: Bearer, silent: Cost | None) -> _BearerCost:
    key: str | None = getattr(cost, by)
    unnamed = NOBODY if not cost.held else "unmapped" if by == "team" else f"{BEARERS[by]} unknown"
    classes = [getattr(cost.classes, name) for name in CLASSES]
    return _BearerCost(
        key,
        plain(unnamed if key is None else key),
        cost.held,
        cost.milliseconds,
        cost.cost_micros,
        tuple(amounts.milliseconds for amounts in classes),
        tuple(amounts.cost_micros for amounts in classes),
        0 if silent is None else silent.milliseconds,
        0 if silent is None else silent.cost_micros or 0,
    )


def _sum_of(costs: Sequence[_BearerCost]) -> _BearerCost:
    known = [cost.micros for cost in costs if cost.micros is not None]
    return _BearerCost(
        None,
        "total",
        True,
        sum(cost.ms for cost in costs),
        sum(known) if known else None,
        tuple(sum(column) for column in zip(*(cost.classes_ms for cost in costs), strict=True)),
        tuple(sum(micros or 0 for micros in column) for column in zip(*(c.classes_micros for c in costs), strict=True)),
        sum(cost.silent_ms for cost in costs),
        sum(cost.silent_micros for cost in costs),
    )


def _columns(costs: Sequence[_BearerCost], whole: Breakdown) -> tuple[list[str], Sequence[str | None], list[str]]:
    """Return hours, money and what was avoidable of it, each with its total last; each adds up as printed."""
    places = hours_decimals(whole.milliseconds)
    hours = _column([cost.ms for cost in costs], HOUR_MS, places)
    if whole.cost_micros is None:
        return hours, [None] * len(hours), _column([cost.classes_ms[_AVOIDABLE] for cost in costs], HOUR_MS, places)
    places = money_decimals(whole.cost_micros)
    exact, total = [cost.classes_micros[_AVOIDABLE] or 0 for cost in costs], _avoidable_units(whole)
    avoidable = [*column_like(total, exact, MICROS, places), decimal(total, places)]
    return hours, _column([cost.micros or 0 for cost in costs], MICROS, places), avoidable


def _avoidable_units(whole: Breakdown) -> int:
    """Return what was avoidable as the table of the week shows it."""
    columns = rounded(whole)
    places = {group[0].klass: place for place, group in enumerate(columns.groups)}
    shown = places.get("avoidable")
    return 0 if shown is None or columns.money is None else columns.money.classes[shown]


def _column(exact: list[int], denominator: int, decimals: int) -> list[str]:
    total = nearest(sum(exact) * 10**decimals, denominator)
    return [*column_like(total, exact, denominator, decimals), decimal(total, decimals)]


def _line(
    cost: _BearerCost, hours: str, micros: str | None, avoidable: str
) -> tuple[_BearerCost, str, str | None, str]:
    """Return a line with a dash where nothing was measured, or nothing of it has a price."""
    if micros is not None and cost.micros is None and cost.ms:
        return cost, hours, UNKNOWN, UNKNOWN
    return cost, hours, micros, UNKNOWN if cost.is_silent else avoidable


def _sentence(
    period: Period, whole: Breakdown, costs: Sequence[_BearerCost], by: Bearer, currency: str, lacking: int
) -> str:
    if not whole.milliseconds:
        return f"The ledger has no GPU time of {period.label} that this key may see."
    lost = whole.of("avoidable")
    share = percent(lost.total_weight if lost.milliseconds else 0, whole.total_weight)
    silent = whole.milliseconds - whole.measured.milliseconds
    gap = f"; {percent(silent, whole.milliseconds)} of the time was not measured" if whole.has_gap else ""
    gap += "" if lost.milliseconds else unjudged_words(lacking)
    if whole.cost_micros is None:
        owned = gpu_hours(whole.milliseconds, hours_decimals(whole.milliseconds))
        spent = f"{owned} GPU-hours were owned, and no price is known"
        known = f"{share} of them were avoidable{gap}" if whole.measured.milliseconds else "nothing was measured"
        return f"{spent}; {known}."
    places = money_decimals(whole.cost_micros)
    amount = f"{symbol(currency)}{decimal(_avoidable_units(whole), places)}"
    known = (
        f"of which {amount} was avoidable ({share}){gap}" if whole.measured.milliseconds else "and nothing was measured"
    )
    answer = f"{money_words(whole.cost_micros, currency, places)} in {period.label}, {known}."
    held = [cost for cost in costs if cost.held and cost.micros]
    if len(held) < 2 or by not in ("team", "project"):
        return answer
    return f"{answer} {held[0].name} cost most: {percent(held[0].micros or 0, whole.cost_micros)} of it."


@dataclass(slots=True)
class _Day:
    """One day: time and money of each class in their order; `is_priced` where any of it has a price."""

    start: int
    classes_ms: list[int] = field(default_factory=lambda: [0] * len(CLASSES))
    classes_micros: list[int] = field(default_factory=lambda: [0] * len(CLASSES))
    is_priced: bool = False

    def height(self, place: int, *, in_money: bool) -> float:
        """Return a class as a bar has it: in whole units of money, or in GPU-hours."""
        return round(self.classes_micros[place] / MICROS if in_money else self.classes_ms[place] / HOUR_MS, 2)


def _day_chart(context: RequestContext, period: Period) -> Chart:
    """Return what each day cost by class; in GPU-hours where nothing has a price."""
    known = _days(context, period)
    in_money = any(day.is_priced for day in known)
    moments = [local(day.start, period.timezone) for day in known]
    traces = tuple(
        Trace(name, name, tuple(day.height(place, in_money=in_money) for day in known))
        for place, name in enumerate(CLASSES)
    )
    times = tuple(moment.replace(tzinfo=None).isoformat() for moment in moments)
    title, unit = ("Cost by day", symbol(context.currency).strip()) if in_money else ("GPU-hours by day", "GPU-hours")
    return Chart(title, unit, times, tuple(day(moment) for moment in moments), traces)


def _days_sheet(context: RequestContext, period: Period) -> Sheet:
    """Return the same, exact."""
    rows = []
    for known in _days(context, period):
        micros = sum(known.classes_micros) if known.is_priced else None
        classes = _in_turn(known.classes_ms, known.classes_micros)
        rows.append((local(known.start, period.timezone).date().isoformat(), sum(known.classes_ms), micros, *classes))
    return Sheet(("day", "milliseconds", "cost_micros", *_CLASS_HEADS), rows)


def _days(context: RequestContext, period: Period) -> Sequence[_Day]:
    """Return the days of which the ledger has hours: SQL sums the hours, which are few, and they go to their days."""
    sums = ledger_sums(context.session, "hour", "state", "cause", period=period)
    if not sums:
        return []
    starts = list(day_starts(sums[0].keys[0], period.end, period.timezone))
    known: dict[int, _Day] = {}
    for amounts in sums:
        hour, state, cause = amounts.keys
        start = starts[bisect_right(starts, hour) - 1]
        own, place = known.setdefault(start, _Day(start)), CLASSES.index(booking(state, cause).klass)
        own.classes_ms[place] += amounts.milliseconds
        own.classes_micros[place] += amounts.cost_micros or 0
        own.is_priced |= amounts.cost_micros is not None
    return list(known.values())


def _price_list(context: RequestContext) -> Mapping[str, object] | None:
    """Return the site's prices with what each is now and how old its source, and what is wrong with the book.

    None for a team's key, to which the API does not show the book either.
    """
    if context.scope.teams is not None:
        return None
    book, now = price_book(context.whole.settings), context.whole.clock()
    today = _date(now)
    wrong = complaints(book, owned_kinds(context.whole.session, now), today)
    rows = [(row, _micros(row, now), _span(row), _age(row, today)) for row in _prices(book)]
    return {"version": book.version or "", "rows": rows, "complaints": [complaint.sentence for complaint in wrong]}


def _price_sheet(context: RequestContext) -> Sheet:
    """Return the same, exact; empty for a team's key."""
    head = ("sku", "purchase_option", "node_group", "micros_per_gpu_hour", "from_us", "until_us", "source", "as_of")
    now, rows = context.whole.clock(), []
    for row in _prices(price_book(context.whole.settings)) if context.scope.teams is None else ():
        as_of = row.as_of.isoformat() if row.as_of else None
        rows.append((*row.subject, _micros(row, now), row.starts_at, row.ends_at, row.source, as_of))
    return Sheet(head, rows)


def _prices(book: PriceBook) -> Sequence[PriceRow | Derived]:
    return sorted((*book.rows, *book.derived), key=lambda row: (row.subject[0] or "", row.starts_at))


def _micros(row: PriceRow | Derived, now: int) -> int | None:
    """Return what a GPU-hour costs now, or at the nearest moment that the row speaks of."""
    last = now if row.ends_at is None else min(now, row.ends_at - 1)
    return row.micros_at(max(row.starts_at, last))


def _span(row: PriceRow | Derived) -> str:
    return f"{_date(row.starts_at)}" + (f" until {_date(row.ends_at)}" if row.ends_at is not None else "")


def _age(row: PriceRow | Derived, today: date) -> str:
    if row.as_of is None:
        return "undated"
    age = (today - row.as_of).days
    return "today" if age <= 0 else f"{counted(age, 'day')} ago"


def _date(at_us: int) -> date:
    return datetime.fromtimestamp(at_us // MICROS, UTC).date()
