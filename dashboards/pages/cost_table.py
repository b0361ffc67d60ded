"""What a period cost by who or what bears it: the API's costs, rounded so that every column adds up."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.wire.units import HOUR_MS, MICROS
from analyzer.errors import ConfigError
from analyzer.interfaces.api.costs import Bearer, Classes, Cost, CostsAsked, costs_of
from analyzer.interfaces.api.parameters import LIMIT_MAX
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.ledger.breakdown import column_like, rounded
from analyzer.ledger.coverage import unjudged
from analyzer.period import Period
from analyzer.queries.ledger_query import Breakdown, breakdown
from analyzer.states import CLASSES
from analyzer.text.rounding import nearest
from analyzer.text.words import (
    UNKNOWN,
    decimal,
    hours_decimals,
    money,
    money_decimals,
    percent,
    plain,
    symbol,
    unjudged_words,
)
from dashboards.pages.marks import Mark, class_bar
from dashboards.pages.read_pages import Sheet

BEARERS: dict[Bearer, str] = {
    "team": "team", "project": "project", "model": "model", "stage": "stage", "queue": "queue",
    "node_group": "node group", "sku": "GPU type",
}  # fmt: skip
_SHOWN = 30
NOBODY = "nobody (not allocated)"
_SILENT_HEADS = ("not_measured_milliseconds", "not_measured_cost_micros")


@dataclass(frozen=True, slots=True)
class CostLine:
    """One printed line. `cost` is None where nothing has a price; `avoidable` is then in GPU-hours."""

    name: str
    hours: str
    cost: str | None
    useful: str
    avoidable: str
    bar: Mark


@dataclass(frozen=True, slots=True)
class CostTable:
    """The lines, dearest first, and the total that they sum to; the sentence that answers."""

    sentence: str
    lines: tuple[CostLine, ...]
    total: CostLine | None
    is_priced: bool


@dataclass(frozen=True, slots=True)
class _Sum:
    """One bearer's exact sums: time and money, in all and by class in their order."""

    name: str
    held: bool
    ms: int
    micros: int | None
    classes_ms: tuple[int, ...]
    classes_micros: tuple[int, ...]
    silent_ms: int = 0  # of it not measured
    silent_micros: int = 0

    @property
    def measured_weight(self) -> int:
        """What a share of the measured time is taken of."""
        return sum(self.weights) - (self.silent_micros if self.micros else self.silent_ms)

    @property
    def weights(self) -> tuple[int, ...]:
        """What shares are taken of."""
        return self.classes_micros if self.micros else self.classes_ms


def bearer_of(word: str) -> Bearer:
    """Return a grouping by its word.

    Raises:
        ConfigError: there is no such grouping.
    """
    if word not in BEARERS:
        raise ConfigError(f"there is no grouping by {word!r}: there are {', '.join(BEARERS)}")
    return word


def cost_table(context: RequestContext, period: Period, by: Bearer) -> CostTable:
    """Return what the period cost, by bearer."""
    whole = breakdown(context.session, period)
    items = sorted(_costs(context, period, by), key=lambda item: (not item.held, getattr(item, by) is None))
    silent = _silent(context, period, by)
    sums = [_sum(item, by, silent.get((getattr(item, by), item.held))) for item in items]
    shown = sums if len(sums) <= _SHOWN else [*sums[: _SHOWN - 2], _others(sums[_SHOWN - 2 : -1]), sums[-1]]
    is_priced = whole.cost_micros is not None
    hours, costs, lost = _columns(shown, whole)
    lines = tuple(
        _line(one, hours[place], costs[place] if is_priced else None, lost[place]) for place, one in enumerate(shown)
    )
    all_of_it = _sum_of(sums) if sums else None
    total = _line(all_of_it, hours[-1], costs[-1] if is_priced else None, lost[-1]) if all_of_it else None
    lacking = len({one.rule for one in unjudged(context.session, period)})
    return CostTable(_sentence(period, whole, shown, by, context.currency, lacking), lines, total, is_priced)


def costs_sheet(context: RequestContext, period: Period, by: Bearer) -> Sheet:
    """Return the same, exact; the dearest thousand. A useful share is of what was measured."""
    head = (by, "held", "milliseconds", "cost_micros", *class_heads(), *_SILENT_HEADS)
    silent = _silent(context, period, by)
    return Sheet(
        head, [_values(item, by, silent.get((getattr(item, by), item.held))) for item in _costs(context, period, by)]
    )


def _costs(context: RequestContext, period: Period, by: Bearer, **which: list[str]) -> list[Cost]:
    return costs_of(context, CostsAsked.model_validate({"by": by, "limit": LIMIT_MAX, **which}), period).items


def _silent(context: RequestContext, period: Period, by: Bearer) -> dict[tuple[str | None, bool], Cost]:
    """Return what was not measured of each bearer."""
    return {(getattr(one, by), one.held): one for one in _costs(context, period, by, state=["unobserved"])}


def _values(item: Cost, by: Bearer, silent: Cost | None) -> tuple[object, ...]:
    silent_ms, silent_micros = (0, 0) if silent is None else (silent.milliseconds, silent.cost_micros or 0)
    amounts = (item.milliseconds, item.cost_micros, *_class_values(item.classes))
    return (getattr(item, by), item.held, *amounts, silent_ms, None if item.cost_micros is None else silent_micros)


def class_heads() -> list[str]:
    """Return what a sheet calls the columns of the classes: time and money of each."""
    return [f"{name}_{unit}" for name in CLASSES for unit in ("milliseconds", "cost_micros")]


def _class_values(classes: Classes) -> list[int | None]:
    parts = [getattr(classes, name) for name in CLASSES]
    return [value for part in parts for value in (part.milliseconds, part.cost_micros)]


def _sum(item: Cost, by: Bearer, silent: Cost | None) -> _Sum:
    name: str | None = getattr(item, by)
    if name is None:
        name = ("unmapped" if by == "team" else f"{BEARERS[by]} unknown") if item.held else NOBODY
    parts = [getattr(item.classes, each) for each in CLASSES]
    return _Sum(
        plain(name),
        item.held,
        item.milliseconds,
        item.cost_micros,
        tuple(part.milliseconds for part in parts),
        tuple(part.cost_micros or 0 for part in parts),
        0 if silent is None else silent.milliseconds,
        0 if silent is None else silent.cost_micros or 0,
    )


def _others(sums: Sequence[_Sum]) -> _Sum:
    made = _sum_of(sums)
    return replace(made, name=f"{len(sums):,} others")


def _sum_of(sums: Sequence[_Sum]) -> _Sum:
    known = [one.micros for one in sums if one.micros is not None]
    return _Sum(
        "total",
        True,
        sum(one.ms for one in sums),
        sum(known) if known else None,
        tuple(sum(column) for column in zip(*(one.classes_ms for one in sums), strict=True)),
        tuple(sum(column) for column in zip(*(one.classes_micros for one in sums), strict=True)),
        sum(one.silent_ms for one in sums),
        sum(one.silent_micros for one in sums),
    )


def _columns(sums: Sequence[_Sum], whole: Breakdown) -> tuple[list[str], list[str], list[str]]:
    """Return hours, money and what was avoidable of it, each with its total last; each adds up as printed."""
    hours = _column([one.ms for one in sums], HOUR_MS, hours_decimals(whole.milliseconds))
    money_places = money_decimals(whole.cost_micros)
    costs = _column([one.micros or 0 for one in sums], MICROS, money_places)
    place = CLASSES.index("avoidable")
    if whole.cost_micros is None:
        return (
            hours,
            costs,
            _column([one.classes_ms[place] for one in sums], HOUR_MS, hours_decimals(whole.milliseconds)),
        )
    exact = [one.classes_micros[place] for one in sums]
    total = _avoidable_units(whole)
    return hours, costs, [*column_like(total, exact, MICROS, money_places), decimal(total, money_places)]


def _avoidable_units(whole: Breakdown) -> int:
    """Return what was avoidable as the table of the week shows it."""
    columns = rounded(whole)
    places = {group[0].klass: place for place, group in enumerate(columns.groups)}
    shown = places.get("avoidable")
    return 0 if shown is None or columns.money is None else columns.money.classes[shown]


def _column(exact: list[int], denominator: int, decimals: int) -> list[str]:
    total = nearest(sum(exact) * 10**decimals, denominator)
    return [*column_like(total, exact, denominator, decimals), decimal(total, decimals)]


def _line(one: _Sum, hours: str, cost: str | None, avoidable: str) -> CostLine:
    """Return what is printed of one; shares are of what was measured, a dash where nothing was."""
    useful = percent(one.weights[0], one.measured_weight) if one.held else UNKNOWN
    place = CLASSES.index("avoidable")
    if not one.classes_ms[place] and (not one.held or one.silent_ms >= max(1, one.ms)):
        avoidable = UNKNOWN
    if cost is not None and one.micros is None and one.ms:
        cost, avoidable = UNKNOWN, UNKNOWN
    return CostLine(one.name, hours, cost, useful, avoidable, class_bar(one.weights))


def _sentence(period: Period, whole: Breakdown, sums: Sequence[_Sum], by: Bearer, currency: str, lacking: int) -> str:
    if not whole.milliseconds:
        return f"The ledger has no GPU time of {period.label} that this key may see."
    lost = whole.of("avoidable")
    share = percent(lost.total_weight if lost.milliseconds else 0, whole.total_weight)
    silent = whole.milliseconds - whole.measured.milliseconds
    gap = f"; {percent(silent, whole.milliseconds)} of the time was not measured" if whole.has_gap else ""
    gap += "" if lost.milliseconds else unjudged_words(lacking)
    if whole.cost_micros is None:
        spent = f"{decimal(nearest(whole.milliseconds, HOUR_MS), 0)} GPU-hours were owned, and no price is known"
        known = f"{share} of them were avoidable{gap}" if whole.measured.milliseconds else "nothing was measured"
        return f"{spent}; {known}."
    places = money_decimals(whole.cost_micros)
    amount = f"{symbol(currency)}{decimal(_avoidable_units(whole), places)}"
    known = (
        f"of which {amount} was avoidable ({share}){gap}" if whole.measured.milliseconds else "and nothing was measured"
    )
    told = f"{money(whole.cost_micros, currency, places)} in {period.label}, {known}."
    held = [one for one in sums if one.held and one.micros]
    if len(held) < 2 or by not in ("team", "project"):
        return told
    return f"{told} {held[0].name} cost most: {percent(held[0].micros or 0, whole.cost_micros)} of it."
