"""Hours that cost far from what such hours did: the same weekday and hour in the weeks before. Pure.

algorithms.md 7: the residual from the median of such hours, more than 3.5 times 1.4826 median deviations off, two hours
or more in a row, and worth looking at in money.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from agent.wire.units import HOUR_US, WEEK_US

WEEKS_MOST = 8
_WEEKS_LEAST = 3  # below, a median is one week's word
_SURE = 3.5
_TO_SIGMA = 1.4826
_SCALE_LEAST = 0.02  # of what such hours cost: what repeats to the digit would make a cent an anomaly (ours)
_HOURS_LEAST = 2
_GAP_MOST = 1  # hours in between that were ordinary


@dataclass(frozen=True, slots=True)
class Odd:
    """Hours in a row that cost more, or less, than such hours did. Amounts are millionths, of the odd hours alone."""

    start: int
    end: int
    hours: tuple[int, ...]
    actual: int
    expected: int

    @property
    def impact(self) -> int:
        """What it made of difference; negative where it cost less."""
        return self.actual - self.expected


def odd(cost: Mapping[int, int], known: frozenset[int], start: int, end: int, floor: int) -> list[Odd]:
    """Return what was odd from `start` to `end`, the largest first.

    `cost` is by hour; `known` are the hours that the ledger has: of those without cost nothing was spent, of others
    nobody knows. An hour that has not enough like it before is not judged.
    """
    hours = [hour for hour in range(start, end, HOUR_US) if hour in known]
    usual = {hour: median(like) for hour in hours if len(like := _like(cost, known, hour, start)) >= _WEEKS_LEAST}
    scale = _scale(cost, known, start)
    if scale is None:
        return []
    off = {
        hour: cost.get(hour, 0) - expected
        for hour, expected in usual.items()
        if abs(cost.get(hour, 0) - expected) > _SURE * max(scale, _SCALE_LEAST * expected)
    }
    found = [_merged(group, cost, usual) for group in _groups(off)]
    kept = [one for one in found if len(one.hours) >= _HOURS_LEAST and abs(one.impact) >= floor]
    return sorted(kept, key=lambda one: (-abs(one.impact), one.start))


def weeks_missing(known: frozenset[int], start: int) -> int:
    """Return how many more weeks of ledger before `start` are needed to judge."""
    weeks = next((week for week in range(_WEEKS_LEAST) if start - (week + 1) * WEEK_US not in known), _WEEKS_LEAST)
    return _WEEKS_LEAST - weeks


def like_hours(known: frozenset[int], hours: Sequence[int], start: int) -> tuple[list[int], int]:
    """Return the hours before `start` that these are compared with, and how many weeks of them there are."""
    found = [hour - week * WEEK_US for hour in hours for week in _weeks(known, hour, start)]
    return found, max(1, round(len(found) / max(1, len(hours))))


def _weeks(known: frozenset[int], hour: int, start: int) -> list[int]:
    first = (hour - start) // WEEK_US + 1  # a period of weeks is not compared with itself
    return [week for week in range(first, first + WEEKS_MOST) if hour - week * WEEK_US in known]


def _like(cost: Mapping[int, int], known: frozenset[int], hour: int, start: int) -> list[int]:
    return [cost.get(hour - week * WEEK_US, 0) for week in _weeks(known, hour, start)]


def _scale(cost: Mapping[int, int], known: frozenset[int], start: int) -> float | None:
    """Return how far hours before usually lie from such hours, as one standard deviation; None where nobody knows."""
    by_kind: dict[int, list[int]] = {}
    for hour in known:
        if start - WEEKS_MOST * WEEK_US <= hour < start:
            by_kind.setdefault(hour % WEEK_US, []).append(cost.get(hour, 0))
    apart = [
        abs(amount - middle)
        for amounts in by_kind.values()
        if len(amounts) >= _WEEKS_LEAST
        for middle in (median(amounts),)
        for amount in amounts
    ]
    return _TO_SIGMA * median(apart) if apart else None


def _groups(off: Mapping[int, float]) -> list[list[int]]:
    groups: list[list[int]] = []
    for hour in sorted(off):
        last = groups[-1][-1] if groups else None
        if last is not None and hour - last <= (_GAP_MOST + 1) * HOUR_US and (off[hour] > 0) == (off[last] > 0):
            groups[-1].append(hour)
        else:
            groups.append([hour])
    return groups


def _merged(hours: Sequence[int], cost: Mapping[int, int], usual: Mapping[int, float]) -> Odd:
    actual = sum(cost.get(hour, 0) for hour in hours)
    expected = round(sum(usual[hour] for hour in hours))
    return Odd(hours[0], hours[-1] + HOUR_US, tuple(hours), actual, expected)
