"""What a unit cost week by week: the trend that a single difference hides. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import HOUR_US
from analyzer.finops.unit_cost.counted import Hour
from analyzer.finops.unit_cost.unit import Unit
from analyzer.period import Calendar, Period

_TOLD_LEAST = 0.5  # of the GPU time of a name must lie in hours in which it said what it did


@dataclass(frozen=True, slots=True)
class Week:
    """One week of one unit, as far as it is over: what its runs took and did. None is not known."""

    label: str
    start: int
    end: int
    units: int | None
    milliseconds: int
    micros: int | None


def weeks_between(start: int, end: int, calendar: Calendar) -> tuple[Period, ...]:
    """Return the weeks that begin in [start, end), oldest first; a change of the clock may move one an hour out."""
    found = []
    week = calendar.week_of(end - 1)
    while week.start >= start - HOUR_US:
        found.append(week)
        week = calendar.before(week)
    return tuple(reversed(found))


def by_week(hours: Sequence[Hour], unit: Unit, weeks: Sequence[Period]) -> tuple[Week, ...]:
    """Return a name's weeks from the first in which it ran; where it said too little of what it did, units are None."""
    found: list[Week] = []
    for week in weeks:
        own = [hour for hour in hours if week.start <= hour.start < week.end]
        if not own and not found:
            continue
        units = sum(hour.units(unit) or 0 for hour in own) if said_enough(own, unit) else None
        took = sum(hour.milliseconds for hour in own)
        found.append(Week(week.label, week.start, week.end, units or None, took, hours_cost(own)))
    return tuple(found)


def prices(weeks: Sequence[Week]) -> list[float | None]:
    """Return what a unit cost each week, in money where all of them are priced, else in GPU time."""
    told = [week for week in weeks if week.units]
    is_priced = all(week.micros is not None for week in told)
    return [
        ((week.micros or 0) if is_priced else week.milliseconds) / week.units if week.units else None for week in weeks
    ]


def said_enough(hours: Sequence[Hour], unit: Unit) -> bool:
    """Say whether what was done is told of enough of the GPU time to have a price."""
    whole = sum(hour.milliseconds for hour in hours)
    return bool(whole) and sum(hour.milliseconds for hour in hours if hour.units(unit)) >= _TOLD_LEAST * whole


def hours_cost(hours: Sequence[Hour]) -> int | None:
    """Return what hours cost; None where one of them has no price."""
    costs = [hour.micros for hour in hours]
    return None if None in costs else sum(cost or 0 for cost in costs)
