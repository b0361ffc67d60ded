"""How probable each cause of a stand-still is, by the table of witnesses: whole decibans, so that every run agrees.

One answer a window: the odds of all causes and of none of them sum to one. Windows near each other are one piece of
evidence, so that noise names nothing, and an hour of another cause is seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from analyzer.ledger.causes.witnesses import CAUSES, NOT_A_HABIT_DECIBANS, TABLE, WIDTH, WITNESSES, Points
from analyzer.ledger.windows import RunWindow

_MILLI = 1000  # decibans are kept in thousandths
_LEAST, _MOST = -60, 60  # a millionth and a million: beyond that nothing changes


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one window says of each row of the table: thousandths of decibans, and whether a witness of its own does."""

    scores: tuple[int, ...]
    witnessed: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Posterior:
    """The causes with their shares, permille, the likeliest first; only those that a witness of their own speaks for.

    What is left to a thousand is none of them.
    """

    shares: tuple[tuple[str, int], ...]

    @property
    def cause(self) -> str | None:
        """The likeliest cause; None where none has a witness."""
        return self.shares[0][0] if self.shares else None

    @property
    def share(self) -> int:
        """Its share."""
        return self.shares[0][1] if self.shares else 0


def speaks(points: Points, value: int) -> int:
    """Return what a value says, in thousandths of decibans: straight between the points, level beyond them."""
    first, last = points[0], points[-1]
    if value <= first[0]:
        return first[1] * _MILLI
    if value >= last[0]:
        return last[1] * _MILLI
    for (low, below), (high, above) in pairwise(points):
        if value < high:
            return below * _MILLI + (above - below) * _MILLI * (value - low) // (high - low)
    return last[1] * _MILLI


def read(window: RunWindow) -> dict[str, int]:
    """Return what each witness tells of a window; those that were not reported are left out."""
    told = ((name, witness.read(window)) for name, witness in WITNESSES.items())
    return {name: value for name, value in told if value is not None}


def weigh(window: RunWindow) -> Evidence:
    """Hold one window to every row: one of which no witness was reported can be contradicted, and not confirmed."""
    told = read(window)
    scores: list[int] = []
    witnessed = []
    for row in TABLE:
        says = {name: speaks(points, told[name]) for name, points in row.cells.items() if name in told}
        score = sum(says.values()) + sum(cost * _MILLI for name, cost in row.unseen if name not in told)
        scores.append(row.prior * _MILLI + (score if row.own & says.keys() else min(0, score)))
        witnessed.append(any(says.get(name, 0) > 0 for name in row.own))
    return Evidence(tuple(scores), tuple(witnessed))


def posteriors(evidence: Sequence[Evidence | None], first: int = 0, *, is_habit: bool) -> list[Posterior | None]:
    """Judge windows in order of time from the `first` on, each by the middle of what those about it say.

    None is not looked at.
    """
    return [
        None
        if place < first or own is None
        else _posterior([each for each in _near(evidence, place) if each], is_habit=is_habit)
        for place, own in enumerate(evidence)
    ]


def _near(evidence: Sequence[Evidence | None], place: int) -> Sequence[Evidence | None]:
    return evidence[max(0, place - WIDTH) : place + WIDTH + 1]


def _posterior(near: Sequence[Evidence], *, is_habit: bool) -> Posterior:
    """Return the shares of all causes, each by that of its rows which fits best."""
    best: dict[str, int] = {}
    seen: set[str] = set()
    for number, row in enumerate(TABLE):
        score = sorted([each.scores[number] for each in near])[(len(near) - 1) // 2]
        if row.needs_habit and not is_habit:
            score += NOT_A_HABIT_DECIBANS * _MILLI
        best[row.cause] = max(score, best.get(row.cause, score))
        if 2 * sum([each.witnessed[number] for each in near]) >= len(near):
            seen.add(row.cause)
    odds = {cause: _odds(best[cause] // _MILLI) for cause in CAUSES}
    whole = sum(odds.values()) + _odds(0)
    shares = ((cause, odds[cause] * 1000 // whole) for cause in CAUSES if cause in seen)
    return Posterior(tuple(sorted(shares, key=lambda item: (-item[1], item[0]))))


@lru_cache(maxsize=_MOST - _LEAST + 1)
def _odds(decibans: int) -> int:
    """Return the odds of so many decibans in millionths, a whole number."""
    return round(10 ** (6 + max(_LEAST, min(_MOST, decibans)) / 10))
