"""What work is counted in, what the runs of each name did and cost by hour, and what a unit cost week by week.

When the cost of a unit moved, it is said what that costs a week, and which of its factors moved with it.
Traffic has days and weekends in it, so an hour is compared with the same hour of days of its kind (working day or
weekend) before. Where there is none, it is left out: one week does not say whether Saturdays are dear. The moment is
where the running sum of what is above and below the middle turns (CUSUM, Page, 1954); what is robust (medians, 1.4826
times the median deviation, 3.5 of it) is as algorithms.md 7 has it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log, sqrt
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from agent.wire.units import HOUR_MS, HOUR_US
from analyzer.period import Calendar, Period, local
from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work: the column that counts it, and how many of them a price is told for."""

    column: str
    per: int
    words: str  # after "per": "1,000 requests"
    noun: str
    short: str  # the same in a narrow column


REQUESTS = Unit("requests", 1_000, "1,000 requests", "requests", "1k requests")
TOKENS_SERVED = Unit("tokens_out", 1_000_000, "million tokens served", "tokens served", "1M tokens served")
TOKENS_READ = Unit("tokens_in", 1_000_000, "million prompt tokens", "prompt tokens", "1M prompt tokens")
TOKENS = Unit("tokens", 1_000_000_000, "billion tokens", "tokens", "1bn tokens")
_SAMPLES = Unit("samples", 1_000_000, "million samples", "samples", "1M samples")
_STEPS = Unit("steps", 1_000, "1,000 steps", "steps", "1k steps")

# In the order in which they are preferred: a request of more tokens is more work, and so is a step of a larger batch;
# but what a service is asked for, and what a budget is made of, are requests and tokens.
# What embeds answers no tokens: its price is that of those that it reads.
UNITS = (REQUESTS, TOKENS_SERVED, TOKENS_READ, TOKENS, _SAMPLES, _STEPS)


Whose = tuple[str, str | None]  # name of runs, team


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of all runs of one name: GPU time, its cost (None: some has no price), and what they say they did."""

    start: int
    milliseconds: int
    micros: int | None
    did: Mapping[str, int | None]

    def units(self, unit: Unit) -> int | None:
        """Return how many of a unit were done; None where nobody said."""
        return self.did[unit.column]


def counted(session: "Session", start: int, end: int) -> dict[Whose, list[Hour]]:
    """Return the hours of each name that says what it does, oldest first."""
    (query,) = statements("finops/unit_cost/counted.sql")
    found: dict[Whose, list[Hour]] = {}
    for name, team, hour, milliseconds, micros, *did in session.rows(query, {"start": start, "end": end}):
        told = dict(zip((unit.column for unit in UNITS), did, strict=True))
        found.setdefault((name, team), []).append(Hour(hour, milliseconds, micros, told))
    return found


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


_LEAST_RATIO = 1.25  # smaller ones are told by the table of weeks
_LEAST_AFTER = 12  # hours
_LEAST_BEFORE = 72
_SAME_SIDE = 0.8  # of the hours after must lie on the side of the shift
_SURE = 3.5
_TURNS_MOST = 6
_TO_SIGMA = 1.4826
_NOISE_LEAST = 0.05  # of a logarithm: what repeats to the digit would make any difference sure
_BLOCK = 6  # hours that count as one observation: neighbours are alike (ours)


@dataclass(frozen=True, slots=True)
class At:
    """One hour: when, what kind of day and which hour of it, and the quantity (more than 0)."""

    start: int
    weekend: bool
    hour: int
    amount: float


@dataclass(frozen=True, slots=True)
class Shift:
    """From `at` on the quantity is `ratio` times what it was; `sure` is how many standard errors that is."""

    at: int
    ratio: float
    sure: float


def shift(series: Sequence[At]) -> Shift | None:
    """Return the one shift of level that stands out, or None."""
    if len(series) < _LEAST_BEFORE + _LEAST_AFTER:
        return None
    place = _turn(series)
    before, after = _compared(series, place)
    if len(after) < _LEAST_AFTER or not before:
        return None
    moved = median(after)
    if abs(moved) < log(_LEAST_RATIO) or sum((one > 0) == (moved > 0) for one in after) < _SAME_SIDE * len(after):
        return None
    noise = max(_NOISE_LEAST, _TO_SIGMA * _spread(before), _TO_SIGMA * _spread([one - moved for one in after]))
    # The standard error of a median is 1.2533 times that of a mean (normal distribution).
    error = 1.2533 * noise * sqrt(_BLOCK / len(before) + _BLOCK / len(after))
    sure = abs(moved) / error
    return Shift(series[place].start, exp(moved), sure) if sure > _SURE else None


def _turn(series: Sequence[At]) -> int:
    """Return where the level most likely changes: levels of before tell the place, and the place what is before."""
    place, seen = len(series), set[int]()
    while place not in seen and len(seen) < _TURNS_MOST:
        seen.add(place)
        levels = _levels(series[:place])
        off = [
            log(each.amount) - levels[each.weekend, each.hour] if (each.weekend, each.hour) in levels else None
            for each in series
        ]
        after = [one for one in off[place:] if one is not None]
        known = [one for one in off if one is not None]
        middle = median(after) / 2 if after else fmean(known)  # a median would be that of before, and no sum turn
        sums = list(accumulate(0.0 if one is None else one - middle for one in off))
        places = range(_LEAST_BEFORE, len(series) - _LEAST_AFTER + 1)
        place = max(places, key=lambda number: abs(sums[number - 1]) + abs(sums[-1] - sums[number - 1]))
    return place


def ratio_at(series: Sequence[At], moment: int) -> float | None:
    """Return how many times what it was the quantity is from a moment on; None where there is nothing to compare."""
    place = next((number for number, each in enumerate(series) if each.start >= moment), len(series))
    _, after = _compared(series, place)
    return exp(median(after)) if after else None


def _compared(series: Sequence[At], place: int) -> tuple[list[float], list[float]]:
    """Return how far hours before and after lie from what such hours were before, as logarithms."""
    levels = _levels(series[:place])

    def off(hours: Iterable[At]) -> list[float]:
        return [
            log(each.amount) - levels[each.weekend, each.hour] for each in hours if (each.weekend, each.hour) in levels
        ]

    return off(series[:place]), off(series[place:])


def _levels(series: Iterable[At]) -> dict[tuple[bool, int], float]:
    by_kind: dict[tuple[bool, int], list[float]] = {}
    for each in series:
        by_kind.setdefault((each.weekend, each.hour), []).append(log(each.amount))
    return {kind: median(amounts) for kind, amounts in by_kind.items()}


def _spread(deviations: Sequence[float]) -> float:
    middle = median(deviations)
    return median(abs(one - middle) for one in deviations)


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
