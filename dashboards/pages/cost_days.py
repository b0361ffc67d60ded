"""What each day of a period cost, by class: one look at the ledger, whatever it has of GPUs."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.wire.units import HOUR_MS, MICROS
from analyzer.charts.series import Chart, Trace
from analyzer.interfaces.api.request_service import RequestContext
from analyzer.period import Period, day_starts, local
from analyzer.queries.ledger_query import ledger_sums
from analyzer.states import CLASSES, booking
from analyzer.text.words import day, symbol
from dashboards.pages.cost_table import class_heads
from dashboards.pages.read_pages import Sheet


@dataclass(slots=True)
class _Day:
    """One day: time and money of each class in their order; `is_priced` where any of it has a price."""

    start: int
    classes_ms: list[int] = field(default_factory=lambda: [0] * len(CLASSES))
    classes_micros: list[int] = field(default_factory=lambda: [0] * len(CLASSES))
    is_priced: bool = False

    @property
    def micros(self) -> int | None:
        return sum(self.classes_micros) if self.is_priced else None


def day_chart(context: RequestContext, period: Period) -> Chart:
    """Return what each day cost by class; in GPU-hours where nothing has a price."""
    found = _days(context, period)
    is_priced = any(one.is_priced for one in found)
    unit = symbol(context.currency).strip() if is_priced else "GPU-hours"
    moments = [local(one.start, period.timezone) for one in found]
    traces = tuple(
        Trace(name, name, tuple(_height(one, place, is_priced=is_priced) for one in found))
        for place, name in enumerate(CLASSES)
    )
    times = tuple(moment.replace(tzinfo=None).isoformat() for moment in moments)
    title = "Cost by day" if is_priced else "GPU-hours by day"
    return Chart(title, unit, times, tuple(day(moment) for moment in moments), traces)


def days_sheet(context: RequestContext, period: Period) -> Sheet:
    """Return the same, exact."""
    return Sheet(
        ("day", "milliseconds", "cost_micros", *class_heads()),
        [
            (
                local(one.start, period.timezone).date().isoformat(),
                sum(one.classes_ms),
                one.micros,
                *(value for pair in zip(one.classes_ms, one.classes_micros, strict=True) for value in pair),
            )
            for one in _days(context, period)
        ],
    )


def _days(context: RequestContext, period: Period) -> Sequence[_Day]:
    """Return the days of which the ledger has hours: SQL sums the hours, which are few, and they go to their days."""
    sums = ledger_sums(context.session, "hour", "state", "cause", period=period)
    if not sums:
        return []
    starts = list(day_starts(sums[0].keys[0], period.end, period.timezone))
    found: dict[int, _Day] = {}
    for each in sums:
        hour, state, cause = each.keys
        start = starts[bisect_right(starts, hour) - 1]
        one, place = found.setdefault(start, _Day(start)), CLASSES.index(booking(state, cause).klass)
        one.classes_ms[place] += each.milliseconds
        one.classes_micros[place] += each.cost_micros or 0
        one.is_priced |= each.cost_micros is not None
    return list(found.values())


def _height(one: _Day, place: int, *, is_priced: bool) -> float:
    return round(one.classes_micros[place] / MICROS if is_priced else one.classes_ms[place] / HOUR_MS, 2)
