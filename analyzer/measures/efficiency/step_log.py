"""The step time that a kept log tells, by a pattern: `gpuledger report run ID --steps-from RE --log FILE`.

`gpuledger run --steps-from` counts lines as they are printed and knows when. A log that was kept must say the time
itself: the pattern's named groups are `seconds` (of a step), or `time` (of the line), with or without `step` (its
number).
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import BinaryIO

from analyzer.errors import ConfigError
from analyzer.measures.efficiency.steps import StepTime

MAX_LOG_BYTES = 256 * 1024 * 1024
_MAX_LINE_BYTES = 65_536  # as in agent/run: what is beyond it in a line is not searched
_GROUPS = ("step", "seconds", "time")
_INTERVALS_LEAST = 3
_EPOCH_MILLISECONDS = 1e11  # a plain number above this counts milliseconds since 1970: in seconds it were the year 5138


def step_pattern(given: str) -> re.Pattern[str]:
    """Return the pattern that finds steps in a log.

    Raises:
        ConfigError: it is no regular expression, an empty one, or has no group that says a time.
    """
    try:
        pattern = re.compile(given)
    except re.error as error:
        raise ConfigError(f"--steps-from {given!r} is no regular expression: {error}") from error
    if pattern.match(""):
        raise ConfigError(f"--steps-from {given!r} matches nothing at all; say what a step's line has in it")
    if unknown := sorted(set(pattern.groupindex) - set(_GROUPS)):
        raise ConfigError(f"--steps-from {given!r} has a group {unknown[0]!r}; known are {', '.join(_GROUPS)}")
    if not {"seconds", "time"} & set(pattern.groupindex):
        raise ConfigError(
            f"--steps-from {given!r} says no time: name a group for it, as in 'step .* (?P<seconds>[0-9.]+) s'"
        )
    return pattern


def by_log(path: Path, pattern: re.Pattern[str]) -> StepTime:
    """Return the median time of the steps that a log tells.

    Raises:
        ConfigError: the file cannot be read or is too large; nothing in it matches, or what matches is no time.
    """
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"--log {path} is no file; keep the output in one first")
        size = path.stat().st_size
        if size > MAX_LOG_BYTES:
            raise ConfigError(
                f"--log {path} has {size >> 20} MB, more than {MAX_LOG_BYTES >> 20}: give the part that matters"
            )
        with path.open("rb") as log:
            matches = [match for line in _lines(log) if (match := pattern.search(line))]
    except OSError as error:
        raise ConfigError(f"cannot read --log {path}: {error.strerror}") from error
    if not matches:
        raise ConfigError(f"no line of {path} matches --steps-from {pattern.pattern!r}")
    seconds = "seconds" in pattern.groupindex
    times = [_seconds(match) for match in matches] if seconds else list(_between(matches, pattern))
    if len(times) < _INTERVALS_LEAST:
        raise ConfigError(f"{path} tells {len(times)} step times; {_INTERVALS_LEAST} are needed for a median")
    return StepTime(sorted(times)[(len(times) - 1) // 2], "log", "high", len(times))


def _lines(log: BinaryIO) -> Iterator[str]:
    is_rest = False
    while line := log.readline(_MAX_LINE_BYTES):
        if not is_rest:
            # Progress bars write over their line: the last word on it counts as a line of its own.
            yield from line.decode("utf-8", "replace").rstrip("\r\n").split("\r")
        is_rest = not line.endswith(b"\n")


def _seconds(match: re.Match[str]) -> float:
    try:
        found = float(match["seconds"])
    except (TypeError, ValueError):
        found = -1.0
    if not isfinite(found) or found <= 0:
        raise ConfigError(f"--steps-from takes {match['seconds']!r} for seconds in {match[0][:80]!r}; it is no time")
    return found


def _between(matches: list[re.Match[str]], pattern: re.Pattern[str]) -> Iterator[float]:
    """Yield the seconds that each step took between two lines. A number that falls is a new beginning."""
    numbered = "step" in pattern.groupindex
    before: tuple[int, float] | None = None
    for place, match in enumerate(matches):
        text = match["step"] if numbered else None
        if numbered and (text is None or not text.isdecimal() or len(text) > 18):
            raise ConfigError(f"--steps-from takes {text!r} for a step's number in {match[0][:80]!r}")
        number, at = int(text) if text else place, _moment(match)
        if before is not None and number > before[0] and at >= before[1]:
            yield (at - before[1]) / (number - before[0])
        before = (number, at)


def _moment(match: re.Match[str]) -> float:
    """Return the time of a line in seconds: an ISO date and time, or seconds or milliseconds since 1970."""
    text = (match["time"] or "").strip().replace(",", ".")
    try:
        number = float(text)
        if isfinite(number):
            return number / 1000 if number > _EPOCH_MILLISECONDS else number
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"--steps-from takes {text[:40]!r} for a time; it is none such as 2026-11-10T08:12:00"
        ) from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
