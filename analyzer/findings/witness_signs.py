"""The row of the table by which a stand-still was given its cause, in words: what was seen, and the mark."""

from collections.abc import Sequence
from itertools import pairwise

from analyzer.findings.finding import Sign
from analyzer.ledger.causes.witnesses import (
    BOOKED_PERMILLE,
    CAUSES,
    INPUTS,
    SECOND_PERMILLE,
    SURE_PERMILLE,
    SUSPECTED_PERMILLE,
    TABLE,
    WITNESSES,
    Points,
    Row,
    posteriors,
    read,
    speaks,
    weigh,
)
from analyzer.ledger.windows import RunWindow
from analyzer.states import booking
from analyzer.text.words import whole_percent

SECOND = "second candidate: "
_MILLI = 1000
_RULED_OUT = -5 * _MILLI  # decibans: one to three


def median(values: Sequence[int | None]) -> int | None:
    """Return the lower median of what is known; None where nothing is."""
    known = sorted(value for value in values if value is not None)
    return known[(len(known) - 1) // 2] if known else None


def cause_signs(cause: str, windows: Sequence[RunWindow], *, is_booked: bool) -> tuple[Sign, ...]:
    """Return the witnesses of the row that fits this cause best: its own first, then others, and what contradicts."""
    told = _told(windows)
    row = _row(cause, told)
    if row is None:
        return ()
    names = sorted(row.cells, key=lambda name: (name not in row.own, list(row.cells).index(name)))
    found = [_sign(name, row, told.get(name)) for name in names]
    known = [one for one in found if one.holds is not None]
    shares = _shares(windows)
    return (
        *(known or found[:1]),
        _probability(shares.get(cause, 0), is_booked=is_booked),
        *_second(cause, shares, told),
    )


def _row(cause: str, told: dict[str, int]) -> Row | None:
    """Return the row of a cause that fits best; None where it has none."""
    return max((row for row in TABLE if row.cause == cause), key=lambda one: _score(one, told), default=None)


def _shares(windows: Sequence[RunWindow]) -> dict[str, int]:
    """Return how probable each cause is, of all that could be the case: the middle of the windows, told anew."""
    found = [dict(one.shares) if one else {} for one in posteriors([weigh(each) for each in windows], is_habit=True)]
    return {cause: median([shares.get(cause, 0) for shares in found]) or 0 for cause in CAUSES}


def _probability(share: int, *, is_booked: bool) -> Sign:
    least = BOOKED_PERMILLE if is_booked else SUSPECTED_PERMILLE
    then = (
        f"{whole_percent(SURE_PERMILLE)} for high confidence"
        if is_booked
        else f"booked from {whole_percent(BOOKED_PERMILLE)}"
    )
    return Sign("probability", whole_percent(share), f"{whole_percent(least)} or more; {then}", share >= least)


def _second(cause: str, shares: dict[str, int], told: dict[str, int]) -> tuple[Sign, ...]:
    """Return the likeliest other cause where it cannot be left out, with what of its own speaks for it."""
    share, other = max((share, each) for each, share in shares.items() if each != cause)
    row = _row(other, told)
    if share < SECOND_PERMILLE or row is None:
        return ()
    own = [name for name in row.cells if name in row.own and speaks(row.cells[name], told.get(name, 0)) > 0]
    seen = ", ".join(f"{WITNESSES[name].what} {value_words(name, told[name])}" for name in own if name in told)
    label = booking("starved", other).cause_label if other in INPUTS else other.replace("_", " ")
    needed = f"less than {whole_percent(SECOND_PERMILLE)}, for high confidence"
    return (
        Sign(f"{SECOND}{label}", "; ".join(filter(None, (f"{whole_percent(share)} probable", seen))), needed, False),
    )


def speaking_against(cause: str, windows: Sequence[RunWindow]) -> list[tuple[str, str]]:
    """Return the other causes of input that a witness of their own speaks against: which, and what was seen."""
    told = _told(windows)
    found = []
    for other in (each for each in CAUSES if each in INPUTS and each != cause):
        row = _row(other, told)
        if row is None:
            continue
        seen = sorted(row.own & told.keys(), key=lambda name: (speaks(row.cells[name], told[name]), name))
        if _score(row, told) > _RULED_OUT or not seen or speaks(row.cells[seen[0]], told[seen[0]]) >= 0:
            continue
        name = seen[0]
        value, mark = value_words(name, told[name]), mark_words(name, row.cells[name])
        found.append((booking("starved", other).cause_label, f"{WITNESSES[name].what} {value}, not {mark}"))
    return found


def value_words(name: str, value: int) -> str:
    """Return a witness's value as a person reads it."""
    unit = WITNESSES[name].unit
    if unit.startswith("%"):
        return whole_percent(value) + unit[1:]
    if unit == "kB/s":
        return f"{value / _MILLI:,.1f} MB/s"
    if unit == "MB/s":
        return f"{value / _MILLI:,.1f} GB/s"
    return f"{value / _MILLI:,.1f} {unit}"


def mark(points: Points) -> int:
    """Return the value at which a rising witness begins to speak for its cause."""
    for (low, below), (high, above) in pairwise(points):
        if below <= 0 < above:
            return low + (high - low) * -below // (above - below) + (1 if below < 0 else 0)
    return points[-1][0]


def mark_of(cause: str, name: str) -> int:
    """Return that value of the first row of a cause that has this witness."""
    return mark(next(row.cells[name] for row in TABLE if row.cause == cause and name in row.cells))


def _told(windows: Sequence[RunWindow]) -> dict[str, int]:
    seen = [read(window) for window in windows]
    middle = {name: median([one.get(name) for one in seen]) for name in WITNESSES}
    return {name: value for name, value in middle.items() if value is not None}


def _score(row: Row, told: dict[str, int]) -> int:
    return sum(speaks(points, told[name]) for name, points in row.cells.items() if name in told)


def _sign(name: str, row: Row, value: int | None) -> Sign:
    points, witness = row.cells[name], WITNESSES[name]
    needed = mark_words(name, points) if name in row.own else limit_words(name, points)
    if value is None:
        return Sign(witness.what, "not reported", needed, None)
    says = speaks(points, value)
    # What merely does not contradict is no evidence, and is not said to hold.
    holds = says > 0 if name in row.own else None if says > -_MILLI else False
    return Sign(witness.what, value_words(name, value), needed, holds)


def mark_words(name: str, points: Points) -> str:
    """Return from where on a witness of its own speaks for the cause."""
    falls = [place for place in range(1, len(points)) if points[place][1] < points[place - 1][1]]
    if not falls:
        return f"{value_words(name, mark(points))} or more"
    return f"{value_words(name, mark(points))} to {value_words(name, points[falls[0] - 1][0])}"


def limit_words(name: str, points: Points) -> str:
    """Return where what is no witness of its own begins to contradict the cause."""
    first, last = points[0], points[-1]
    if first[1] < last[1]:  # too little of it contradicts
        return f"{value_words(name, mark(points) if last[1] > 0 else last[0])} or more"
    return f"{value_words(name, next(value for value, says in reversed(points[:-1]) if says >= 0))} or less"
