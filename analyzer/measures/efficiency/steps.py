"""The step time of a run: by its own word, by its log, or by the period of its GPUs' work.

A wave that repeats after p samples repeats after 2p and 3p as well, and a step that is made of like parts nearly
repeats after each part. So the shortest lag is taken at which the series repeats as well as it ever does; where a
shorter lag repeats nearly as well and fits into it a whole number of times, nobody can tell part from whole, and none
is named.

`gpuledger run --steps-from` counts lines as they are printed and knows when. A log that was kept must say the time
itself: the pattern's named groups are `seconds` or `milliseconds` (of a step) or `per_second` (steps), or `time` (of
the line), with or without `step` (its number). Where a pattern has both they are held against each other.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite, sqrt
from pathlib import Path
from typing import BinaryIO, Literal

from agent.wire.bounded import as_seen, number_said
from analyzer.errors import ConfigError
from analyzer.states import Confidence

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
        return "no period is visible"
    lag = next(lag for lag, (_, top) in peaks.items() if top >= _AS_WELL * best)
    if lag < lag_least or any(_is_short(strengths, part, lag, best) for part in peaks if part < lag_least):
        return "its period is shorter than ten samples"
    parts = [part for part, (_, top) in peaks.items() if part < lag and top >= _NEARLY * best and _fits(part, lag)]
    if parts:
        return f"a step may be {lag} samples, or a part of it {parts[0]}"
    if strengths[2 * lag] < floor / 2:
        return "the pattern does not repeat consistently"
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


How = Literal["progress", "log", "period"]

# Samples must be ten times as frequent as steps to tell how much of a step is a stall (DS: reference algorithms 1.3).
EXPIRED = "its samples are no longer kept"
_SAMPLES_PER_STEP = 10
# Slower repetitions are evaluations and checkpoints; no published training step takes five minutes.
_STEP_MAX_SECONDS = 300.0
_SAMPLES_MAX = 2_000
_SAMPLES_LEAST = 200
# What is faster than the samples comes back as a slow and shallow wave: an average over a whole interval keeps at most
# a ninth of its swing where the ghost takes ten samples or more (sinc(0.9) = 0.11). So a swing must be more than this
# share of what it could be: of activity, that of a GPU that is full or idle; of power, which has no such end, the mean.
_SWING_LEAST = 0.2
_STRONG = 0.7  # of the correlation: below it the period is there, and drowned in other things


@dataclass(frozen=True, slots=True)
class ReportedProgress:
    """What a run said of itself, in all. `working_us` is the time from its first word to its last in which steps could
    be made (efficiency_query.py); None where the ledger does not know. `first_at` is in microseconds
    UTC.

    `is_chorus` means that several hosts counted at the same time, so that nobody knows whose count is the run's.
    """

    run_id: str
    steps: int | None = None
    samples: int | None = None
    tokens: int | None = None
    working_us: int | None = None
    is_chorus: bool = False


@dataclass(frozen=True, slots=True)
class Wave:
    """One GPU over time: abutting samples of equal length, and of what (`sm_active_ratio` or `power_watts`)."""

    seconds: float
    values: tuple[float, ...]
    of: Literal["sm_active_ratio", "power_watts"]


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of working time that a step takes, how that is known and of how many steps; or why it is not known."""

    seconds: float | None
    how: How | None = None
    confidence: Confidence | None = None
    steps: int | None = None
    because: str | None = None


def step_time(
    told: ReportedProgress | None, wave: Wave | None, log: StepTime | None = None, *, is_expired: bool = False
) -> StepTime:
    """Return the best that is known: a log that somebody names, the run's own count, the period of a GPU.

    `is_expired` says that of the run's samples some are no longer kept.
    """
    if log is not None:
        return log
    counted = by_progress(told)
    if counted.seconds is not None:
        return counted
    seen = StepTime(None, because=EXPIRED) if wave is None and is_expired else by_period(wave)
    return seen if seen.seconds is not None else StepTime(None, because=f"{counted.because}; {seen.because}")


def by_progress(told: ReportedProgress | None) -> StepTime:
    """Return the step time by the run's own count of steps: exact."""
    if told is None or not told.steps:
        return StepTime(None, because="the run does not report steps")
    if told.is_chorus:
        return StepTime(None, because="several hosts count its steps at once: let rank 0 alone report")
    if not told.working_us:
        return StepTime(None, because="the ledger has no productive time for it")
    return StepTime(told.working_us / told.steps / 1_000_000, "progress", "high", told.steps)


def by_period(wave: Wave | None) -> StepTime:
    """Return the step time by the period with which one GPU falls quiet and works again.

    Never of high confidence: that a period is a step, and not a part of one or several, is not seen from outside.
    """
    if wave is None:
        return StepTime(None, because="no samples of a GPU of its own")
    least = _SAMPLES_PER_STEP * wave.seconds
    if len(wave.values) < _SAMPLES_LEAST or least > _STEP_MAX_SECONDS:
        many = f"{len(wave.values)} samples in a row, {wave.seconds:g} s each"
        return StepTime(None, because=f"{many}, show no period that could be a step")
    mean = sum(wave.values) / len(wave.values)
    swing = (sum((value - mean) ** 2 for value in wave.values) / len(wave.values)) ** 0.5
    possible = sqrt(max(0.0, mean * (1 - mean))) if wave.of == "sm_active_ratio" else mean
    if swing < _SWING_LEAST * possible or swing == 0:
        return StepTime(None, because=f"its GPU is too steady at {wave.seconds:g} s per sample to show steps")
    found = fundamental(wave.values, _SAMPLES_PER_STEP, int(_STEP_MAX_SECONDS / wave.seconds))
    if isinstance(found, str):
        return StepTime(None, because=f"{found} ({wave.seconds:g} s per sample shows steps from {least:g} s on)")
    sure: Confidence = "medium" if wave.of == "sm_active_ratio" and found.strength >= _STRONG else "low"
    return StepTime(found.lag * wave.seconds, "period", sure, int(found.cycles))


def longest_even(samples: Sequence[tuple[int, int, float]]) -> tuple[float, tuple[float, ...]] | None:
    """Return the newest longest stretch of samples that abut and are equally long: seconds of one, and the values.

    Of each sample: start, end (microseconds) and value, in order. A beat may be a tenth of its length off. None where
    there are not two.
    """
    if len(samples) < 2:
        return None
    usual = sorted(end - start for start, end, _ in samples)[len(samples) // 2]
    best: list[float] = []
    run: list[float] = []
    before: int | None = None
    for start, end, value in samples:
        is_even = abs(end - start - usual) * 10 <= usual
        if not is_even or (before is not None and abs(start - before) * 10 > usual):
            run = []
        if is_even:
            run.append(value)
        before = end
        if len(run) >= len(best):
            best = run
    return (usual / 1_000_000, tuple(best[-_SAMPLES_MAX:])) if len(best) > 1 and usual > 0 else None


MAX_LOG_BYTES = 256 * 1024 * 1024
_MAX_LINE_BYTES = 65_536  # as in agent/run: what is beyond it in a line is not searched
_SECONDS_OF: Mapping[str, Callable[[float], float]] = {
    "seconds": lambda value: value,
    "milliseconds": lambda value: value / 1000,
    "per_second": lambda value: 1 / value,
}
_GROUPS = ("step", *_SECONDS_OF, "time")
_INTERVALS_LEAST = 3
_EPOCH_MILLISECONDS = 1e11  # a plain number above this counts milliseconds since 1970: in seconds it were the year 5138
_APART = 3.0  # times of lines have time between steps in them, evaluations and checkpoints; three times is another unit
# As glog writes it (1124, 20261124), Go (2026/11/24), detectron2 (11/24), or without a date.
_MOMENT = re.compile(r"(?:(\d{4})?[-/]?(\d{2})[-/]?(\d{2})[ T])?(\d{2}:\d{2}:\d{2}(?:\.\d+)?)")
_NO_YEAR = "2000"  # a leap year, where none is said: only differences count
_LOG = logging.getLogger(__name__)


def step_pattern(given: str) -> re.Pattern[str]:
    """Return the pattern that finds steps in a log.

    Raises:
        ConfigError: it is not a valid regular expression, an empty one, or has no group that says a time.
    """
    try:
        pattern = re.compile(given)
    except re.error as error:
        raise ConfigError(f"--steps-from {given!r} is not a valid regular expression: {error}") from error
    if pattern.match(""):
        raise ConfigError(f"--steps-from {given!r} matches the empty string; match what is on a step's line")
    if unknown := sorted(set(pattern.groupindex) - set(_GROUPS)):
        raise ConfigError(
            f"--steps-from {given!r} has an unknown group {unknown[0]!r}; groups are {', '.join(_GROUPS)}"
        )
    if not {*_SECONDS_OF, "time"} & set(pattern.groupindex):
        raise ConfigError(
            f"--steps-from {given!r} captures no time: name a group for it, as in 'step .* (?P<seconds>[0-9.]+) s'"
        )
    return pattern


def by_log(path: Path, pattern: re.Pattern[str]) -> StepTime:
    """Return the median time of the steps that a log tells.

    Raises:
        ConfigError: the file cannot be read or is too large; nothing in it matches, what matches is no time, or the
            times of its steps and of its lines contradict each other.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"--log {path} is not a file; save the output to one first")
        size = path.stat().st_size
        if size > MAX_LOG_BYTES:
            raise ConfigError(
                f"--log {path} has {size >> 20} MB, more than {MAX_LOG_BYTES >> 20}: pass the relevant part"
            )
        with path.open("rb") as log:
            matches = [match for line in _lines(log) if (match := pattern.search(line))]
    except OSError as error:
        raise ConfigError(f"cannot read --log {path}: {error.strerror}") from error
    if not matches:
        raise ConfigError(f"no line of {path} matches --steps-from {pattern.pattern!r}")
    units = [unit for unit in _SECONDS_OF if unit in pattern.groupindex]
    said = [seconds for match in matches if (seconds := _seconds(match, units)) is not None] if units else []
    between = list(_between(matches, pattern)) if "time" in pattern.groupindex else []
    times = said or between
    if len(times) < _INTERVALS_LEAST:
        raise ConfigError(f"{path} has {len(times)} step times; {_INTERVALS_LEAST} are needed for a median")
    median = _median(times)
    if said and len(between) >= _INTERVALS_LEAST:
        _agree(median, _median(between), units)
    if median > _STEP_MAX_SECONDS:
        _LOG.warning(
            "a step of %s takes %.0f s: more than five minutes is rare; are they milliseconds (?P<milliseconds>…)?",
            path,
            median,
        )
    return StepTime(median, "log", "high", len(times))


def _median(times: Sequence[float]) -> float:
    return sorted(times)[(len(times) - 1) // 2]


def _agree(said: float, between: float, units: Sequence[str]) -> None:
    """Raise where what lines say of their steps cannot be, by the times at which they were written."""
    if said > _APART * between or between > 10 * _APART * said:
        raise ConfigError(
            f"--steps-from: by {' and '.join(units)} a step takes {said:.3g} s, by its lines' times {between:.3g} s;"
            " name the group for its unit: seconds, milliseconds or per_second"
        )


def _lines(log: BinaryIO) -> Iterator[str]:
    """Yield lines; what a progress bar writes over its line is one of its own, however long the file's only line is."""
    rest, is_cut = b"", False
    while chunk := log.read(_MAX_LINE_BYTES):
        *lines, rest = re.split(rb"[\r\n]", rest + chunk)
        for line in lines:
            if line and not is_cut:
                yield as_seen(line[:_MAX_LINE_BYTES]).decode("utf-8", "replace")
            is_cut = False
        if len(rest) > _MAX_LINE_BYTES:
            if not is_cut:
                yield rest[:_MAX_LINE_BYTES].decode("utf-8", "replace")
            rest, is_cut = b"", True
    if rest and not is_cut:
        yield rest.decode("utf-8", "replace")


def _seconds(match: re.Match[str], units: Sequence[str]) -> float | None:
    """Return what a line says of its step, None where none of its groups took part.

    Raises:
        ConfigError: what it says is no time.
    """
    unit = next((unit for unit in units if match[unit] is not None), None)
    if unit is None:
        return None
    value = number_said(match[unit])
    if not value:
        raise ConfigError(f"--steps-from takes {match[unit]!r} for {unit} in {match[0][:80]!r}; it is not a valid time")
    return _SECONDS_OF[unit](value)


def _between(matches: list[re.Match[str]], pattern: re.Pattern[str]) -> Iterator[float]:
    """Yield the seconds that each step took between two lines.

    Lower numbers are those of a rank that lags, or of a new beginning: that it is if the higher ones do not go on.
    """
    numbered = "step" in pattern.groupindex
    highest: tuple[float, float] | None = None
    again: tuple[float, float] | None = None
    since: list[float] = []  # of the steps that may be a new beginning's
    for place, match in enumerate(matches):
        text = match["step"] if numbered else None
        number = float(place) if not numbered else number_said(text or "")
        if number is None:
            raise ConfigError(f"--steps-from takes {text!r} for a step's number in {match[0][:80]!r}")
        here = number, _moment(match)
        if again is not None and len(since) >= _INTERVALS_LEAST and again[0] >= (highest or again)[0] < number:
            yield from since
            highest, again, since = again, None, []
        if highest is None or number > highest[0]:
            if highest is not None and here[1] >= highest[1]:
                yield (here[1] - highest[1]) / (number - highest[0])
            highest, again, since = here, None, []
        else:
            if again is not None and number > again[0] and here[1] >= again[1]:
                since.append((here[1] - again[1]) / (number - again[0]))
            else:
                since = []
            again = here
    yield from since


def _moment(match: re.Match[str]) -> float:
    """Return the time of a line in seconds: date and time as logs write them, or seconds or milliseconds since 1970."""
    text = (match["time"] or "").strip().replace(",", ".")
    try:
        number = float(text)
        if isfinite(number):
            return number / 1000 if number > _EPOCH_MILLISECONDS else number
    except ValueError:
        pass
    if plain := _MOMENT.fullmatch(text):
        text = f"{plain[1] or _NO_YEAR}-{plain[2] or '01'}-{plain[3] or '01'} {plain[4]}"
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"--steps-from takes {text[:40]!r} for a time; it is not one such as 2026-11-10T08:12:00"
        ) from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
