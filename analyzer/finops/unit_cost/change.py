"""When the cost of a unit moved, what that costs a week, and which of its factors moved with it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agent.wire.units import HOUR_MS
from analyzer.finops.unit_cost.counted import Hour
from analyzer.finops.unit_cost.shift import At, ratio_at, shift
from analyzer.finops.unit_cost.unit import REQUESTS, TOKENS_SERVED, Unit
from analyzer.period import Period, local

_Factor = Literal["GPUs", "price", "units", "tokens a request"]
MOVED_LEAST = 1.1  # a factor that moved less is said not to have changed
_FLOOR_MICROS = 20_000_000  # a week: below, nobody should be woken (ours)
_FLOOR_MILLISECONDS = 8 * 3_600_000  # the same where nothing is priced
_WEEK_HOURS = 168


@dataclass(frozen=True, slots=True)
class CostFactor:
    """One factor of a unit's cost, and how many times what it was it is; None: not known."""

    factor: _Factor
    ratio: float | None


@dataclass(frozen=True, slots=True)
class Changed:
    """From `at` on a unit costs `ratio` times what it did.

    `before` and `after` are of the hours on either side: millionths where all is priced, else GPU milliseconds, for
    `Unit.per` units; `a_week` is what the difference comes to at the traffic of after.
    """

    at: int
    ratio: float
    before: float
    after: float
    a_week: int
    is_priced: bool
    factors: tuple[CostFactor, ...]


def changed(hours: Sequence[Hour], unit: Unit, period: Period) -> Changed | None:
    """Return the change of level that began in the period, or None; what costs too little a week is none."""
    told = [hour for hour in hours if hour.units(unit) and hour.milliseconds]
    is_priced = all(hour.micros for hour in told)
    series = [_at(hour, _cost(hour, is_priced) / (hour.units(unit) or 1), period) for hour in told]
    found = shift(series)
    if found is None or not period.start <= found.at < period.end:
        return None
    after = [hour for hour in told if hour.start >= found.at]
    units = sum(hour.units(unit) or 0 for hour in after)
    now = sum(_cost(hour, is_priced) for hour in after) / units
    was = now / found.ratio  # of like hours, so that a weekend is not taken for a change
    a_week = round((now - was) * units * _WEEK_HOURS / len(after))
    if abs(a_week) < (_FLOOR_MICROS if is_priced else _FLOOR_MILLISECONDS):
        return None
    factors = _factors(told, unit, found.at, period, is_priced=is_priced)
    return Changed(found.at, found.ratio, was * unit.per, now * unit.per, a_week, is_priced, factors)


def _factors(told: Sequence[Hour], unit: Unit, at: int, period: Period, *, is_priced: bool) -> tuple[CostFactor, ...]:
    def ratio(amounts: Sequence[tuple[Hour, float]]) -> float | None:
        return ratio_at([_at(hour, amount, period) for hour, amount in amounts if amount > 0], at)

    found = [
        CostFactor("GPUs", ratio([(hour, hour.milliseconds / HOUR_MS) for hour in told])),
        CostFactor("units", ratio([(hour, float(hour.units(unit) or 0)) for hour in told])),
    ]
    if is_priced:
        found.insert(1, CostFactor("price", ratio([(hour, (hour.micros or 0) / hour.milliseconds) for hour in told])))
    if unit is REQUESTS:
        sizes = [(hour, (hour.units(TOKENS_SERVED) or 0) / (hour.units(unit) or 1)) for hour in told]
        found.append(CostFactor("tokens a request", ratio(sizes)))
    return tuple(found)


def _cost(hour: Hour, is_priced: bool) -> int:
    return (hour.micros or 0) if is_priced else hour.milliseconds


def _at(hour: Hour, amount: float, period: Period) -> At:
    when = local(hour.start, period.timezone)
    return At(hour.start, when.weekday() >= 5, when.hour, amount)
