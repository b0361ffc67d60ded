"""The period of a series by its autocorrelation: the fundamental, or the words why none is named.

A wave that repeats after p samples repeats after 2p and 3p as well, and a step that is made of like parts nearly
repeats after each part. So the shortest lag is taken at which the series repeats as well as it ever does; where a
shorter lag repeats nearly as well and fits into it a whole number of times, nobody can tell part from whole, and none
is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass

_STRENGTH_LEAST = 0.3
_NOISE_DEVIATIONS = 6.0  # a series without any period reaches 1 / sqrt(n) by chance, six times that never
_CYCLES_LEAST = 5
_AS_WELL = 0.95  # of the best: this lag repeats the series as well as any
_NEARLY = 0.80  # of the best: a part that is like its whole
# Of the best, at a lag too short to be told: a wave of 5.5 samples repeats exactly after 11 of them, and half after 5.
_SHORT = 0.40
_WHOLE = 0.1  # how far a ratio of two lags may be from a whole number


@dataclass(frozen=True, slots=True)
class Fundamental:
    """A period in samples, how strongly the series repeats after it (1: exactly), and how often it was seen."""

    lag: float
    strength: float
    cycles: float


def fundamental(values: Sequence[float], lag_least: int, lag_most: int) -> Fundamental | str:
    """Return the period between two lags (in samples), or why none is named."""
    most = min(lag_most, len(values) // _CYCLES_LEAST)
    strengths = correlations(values, 2 * most + 1)
    # A period of 13.4 samples is seen best after 67: tops are compared, not the lags beside them.
    peaks = {lag: _top(strengths, lag) for lag in _peaks(strengths)}
    floor = max(_STRENGTH_LEAST, _NOISE_DEVIATIONS / max(1, len(values)) ** 0.5)
    best = max((top for lag, (_, top) in peaks.items() if lag <= most), default=0.0)
    if best < floor:
        return "no period shows"
    lag = next(lag for lag, (_, top) in peaks.items() if top >= _AS_WELL * best)
    if lag < lag_least or any(_is_short(strengths, part, lag, best) for part in peaks if part < lag_least):
        return "its period is shorter than ten samples"
    parts = [part for part, (_, top) in peaks.items() if part < lag and top >= _NEARLY * best and _fits(part, lag)]
    if parts:
        return f"a step may be {lag} samples, or a part of it {parts[0]}"
    if strengths[2 * lag] < floor / 2:
        return "what repeats once does not repeat again"
    place, top = peaks[lag]
    return Fundamental(place, top, len(values) / place)


def correlations(values: Sequence[float], lags: int) -> list[float]:
    """Return the autocorrelation for the lags 0, 1, … below `lags`; 1 at lag 0, all 0 for a series that never changes.

    Each lag is averaged over its own pairs, so that a long lag counts as much as a short one.
    """
    mean = sum(values) / len(values) if values else 0.0
    centred = [value - mean for value in values]
    power = sum(value * value for value in centred) / max(1, len(centred))
    if power == 0:
        return [0.0] * lags
    found = []
    for lag in range(min(lags, len(centred))):
        pairs = zip(centred, centred[lag:], strict=False)
        found.append(sum(one * other for one, other in pairs) / (len(centred) - lag) / power)
    return found + [0.0] * (lags - len(found))


def _peaks(strengths: Sequence[float]) -> list[int]:
    """Return the lags of local maxima, beyond the first fall below nothing: every series is like itself at lag 0."""
    fallen = next((lag for lag, strength in enumerate(strengths) if strength <= 0), len(strengths))
    return [
        lag
        for lag in range(max(1, fallen), len(strengths) - 1)
        if strengths[lag - 1] < strengths[lag] >= strengths[lag + 1] and strengths[lag] > 0
    ]


def _is_short(strengths: Sequence[float], part: int, lag: int, best: float) -> bool:
    """Say whether the series repeats after this lag for itself: it falls between there and the longer lag.

    Noise makes small peaks on the flank of a large one as well.
    """
    return strengths[part] >= _SHORT * best and min(strengths[part:lag]) <= strengths[part] / 2


def _fits(part: int, lag: int) -> bool:
    times = lag / part
    return round(times) >= 2 and abs(times - round(times)) <= _WHOLE * round(times)


def _top(strengths: Sequence[float], lag: int) -> tuple[float, float]:
    """Return place and height of the parabola through a peak and its two neighbours; no higher than 1."""
    left, top, right = strengths[lag - 1], strengths[lag], strengths[lag + 1]
    bend = left - 2 * top + right
    if not bend:
        return float(lag), top
    off = 0.5 * (left - right) / bend
    return lag + off, min(1.0, top - 0.25 * (left - right) * off)
