"""Amounts, moments and kinds as people write and read them: 128 GB, 1 h 30 min, 20 GB in 30 min, Friday 18:00, H100.

What reads one is exact, rounds up, and raises ValueError where it is none: the end of a sentence, whose beginning says
the place.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final
from zoneinfo import ZoneInfo

from agent.wire.sku import sku
from agent.wire.units import DAY_SECONDS, DAY_US, HOUR_SECONDS, MINUTE_SECONDS, SECOND_US
from analyzer.capacity.planner.problem import Duration, ProblemError, Task, TaskFileError, TransferRate
from analyzer.period import WEEKDAYS, local
from analyzer.settings.toml_entry import whole_micros, written_decimal
from analyzer.text.words import NO_BREAK, day, nearest, plain

_SHOWN_LETTERS = 40  # of a value that is none
_BYTES: Final[dict[str, int]] = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGTP", 1)},
    **{f"{letter}{unit}": 1024**power for power, letter in enumerate("KMGTP", 1) for unit in ("iB", "i", "")},
}
_SECONDS: Final[dict[str, int]] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE_SECONDS),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), HOUR_SECONDS),
    **dict.fromkeys(("d", "day", "days"), DAY_SECONDS),
}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_SIZE = re.compile(rf"({_NUMBER})\s*({'|'.join(sorted(_BYTES, key=len, reverse=True))})")
_PART = re.compile(rf"({_NUMBER})\s*({'|'.join(sorted(_SECONDS, key=len, reverse=True))})(?![a-z])\s*")
# Slurm's: hours:minutes:seconds, days-hours, days-hours:minutes and days-hours:minutes:seconds.
_SLURM = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,4})(?::([0-5]?[0-9]))?(?::([0-5]?[0-9]))?")
_ISO = re.compile(r"P(?=.)(?:([0-9]{1,4})D)?(?:T(?=.)(?:([0-9]{1,5})H)?(?:([0-9]{1,6})M)?(?:([0-9]{1,8})S)?)?")
_AMOUNT = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,3})0*|(m))?")
_COUNT_MOST = 10**9
_RATE = re.compile(r"(.+?)(?:\s*/\s*s|\s+in\s+(.+))")
_CLOCK = r"([01]?[0-9]|2[0-4]):([0-5][0-9])"
_DAY = re.compile(rf"(today|tomorrow|{'|'.join(WEEKDAYS)})\s+{_CLOCK}", re.IGNORECASE)


def size_bytes(value: object) -> int:
    """Return a size in bytes, rounded up; GB is 10⁹, GiB 2³⁰."""
    if _is_zero(value):
        return 0
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise must_be("a size with its unit, as in 128 GB", value)
    return ceil(Fraction(Decimal(found[1])) * _BYTES[found[2]])


def amount(value: object) -> int | Decimal:
    """Return how many CPUs or GPUs: 16, 0.5, or the thousandths of Kubernetes, 500m. What is whole is an integer."""
    text = str(value).strip() if isinstance(value, (int, float, str)) and not isinstance(value, bool) else ""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise must_be("a number, 0 or more, with three decimals at most, as in 16, 0.5 or 500m", value)
    exact_amount = Decimal(f"{found[1]}.{found[2] or 0}") / (1000 if found[3] else 1)
    if exact_amount > _COUNT_MOST:
        raise must_be(f"no more than {_COUNT_MOST:,}", value)
    return int(exact_amount) if exact_amount == int(exact_amount) else exact_amount


def price_micros(value: object) -> int:
    """Return an amount of money in millionths."""
    try:
        amount = (
            written_decimal(str(value))
            if isinstance(value, (int, float, str)) and not isinstance(value, bool)
            else None
        )
    except InvalidOperation:
        amount = None
    micros = whole_micros(amount) if amount is not None and amount.is_finite() else None
    if micros is None:
        raise must_be("an amount such as 2.60, with no more than six decimals", value)
    return micros


def span_seconds(value: object) -> int:
    """Return a duration in seconds, rounded up: 3 h, 1 h 30 min, 90m, PT1H30M, or Slurm's 2-12:00:00 and 12:00:00."""
    if _is_zero(value):
        return 0
    total, at = Fraction(0), 0
    text = value.strip() if isinstance(value, str) else ""
    found_parts = _clock_parts(text)
    if found_parts is not None:
        units = (DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, 1)
        return sum(int(part or 0) * unit for part, unit in zip(found_parts, units, strict=True))
    while found := _PART.match(text, at):
        total, at = total + Fraction(Decimal(found[1])) * _SECONDS[found[2]], found.end()
    if not text or at < len(text):
        raise must_be("a duration with its unit, as in 3 h, 1 h 30 min or 2-12:00:00", value)
    return ceil(total)


def _clock_parts(text: str) -> tuple[str | None, ...] | None:
    """Return days, hours, minutes and seconds of a duration that Slurm or ISO 8601 writes; None of any other.

    Raises:
        ValueError: two numbers with a colon, which are minutes and seconds to Slurm, and hours and minutes to people.
    """
    found = _ISO.fullmatch(text) or _SLURM.fullmatch(text)
    if found is None or text.isdecimal():
        return None
    days, hours, minutes, seconds = found.groups()
    if days is None and seconds is None and not text.startswith("P"):
        raise ValueError(
            f"may be hours and minutes, or minutes and seconds; write {hours} h {minutes} min, or 0:{hours}:{minutes}"
        )
    return days, hours, minutes, seconds


def transfer_rate(value: object) -> TransferRate:
    """Return a transfer rate: 1 GB/s, or 20 GB in 30 min."""
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    must = must_be("a rate in bytes, as in 1 GB/s (8 Gbit/s) or 20 GB in 30 min", value)
    if found is None:
        raise must
    try:
        amount, seconds = size_bytes(found[1]), span_seconds(found[2] or "1 s")
    except ValueError as error:
        raise must from error
    if not amount or not seconds:
        raise ValueError("must be greater than zero")
    return TransferRate(amount, seconds)


def parse_moment(where: str, value: object, base: int, timezone: str) -> int:
    """Return a moment in microseconds UTC; what counts from something counts from `base`, the next such day from there.

    Raises:
        TaskFileError: it is none.
    """
    try:
        return moment_us(value, base, ZoneInfo(timezone))
    except ValueError as error:
        raise TaskFileError(f"{where} {error}") from error


def moment_us(value: object, base: int, zone: ZoneInfo) -> int:
    """Return the same, without a place."""
    text = value.strip() if isinstance(value, str) else ""
    if text.lower().startswith("in "):
        return base + span_seconds(text[3:]) * SECOND_US
    if found := _DAY.fullmatch(text):
        return _of_day(found, base, zone)
    at = value if isinstance(value, datetime) else _written_instant(text)
    if at is not None:
        return _micros(at) if at.tzinfo else _on_clock(at, zone)
    if isinstance(value, date) or re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        raise ValueError("is a whole day; give the hour as well, as in 2026-11-23T18:00")
    raise must_be("a moment, as in Friday 18:00, tomorrow 08:00, in 20 h or 2026-11-23T08:00", value)


def _written_instant(text: str) -> datetime | None:
    """Return a date with its time; None of a date alone, and of anything else."""
    try:
        return datetime.fromisoformat(text) if len(text) > len("2026-11-23") else None
    except ValueError:
        return None


def _on_clock(said: datetime, zone: ZoneInfo) -> int:
    """Return a time of the site's clock. Of the hour that it shows twice it is the first."""
    at = said.replace(tzinfo=zone)
    if at.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != said:
        raise ValueError(f"never comes: clocks of {zone.key} go forward over {said:%Y-%m-%d %H:%M}; give another time")
    return _micros(at)


def _of_day(found: re.Match[str], base: int, zone: ZoneInfo) -> int:
    """Return the first such hour after the base: on Friday at 19:00 "Friday 18:00" is a week away."""
    now = datetime.fromtimestamp(base / SECOND_US, zone)
    word, hour, minute = found[1].lower(), int(found[2]), int(found[3])
    ahead = {"today": 0, "tomorrow": 1}.get(word)
    if ahead is None:
        ahead = (WEEKDAYS.index(word) - now.weekday()) % 7
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    at = midnight + timedelta(days=ahead) + timedelta(hours=hour, minutes=minute)
    if at <= now and word in WEEKDAYS:
        at += timedelta(days=7)
    return _micros(at)


def _micros(at: datetime) -> int:
    return round(at.timestamp() * SECOND_US)


def _is_zero(value: object) -> bool:
    return value == 0 and not isinstance(value, bool)


def must_be(what: str, value: object) -> ValueError:
    """Return the error of a value that is something else."""
    return ValueError(f"must be {what}, not {plain(str(value))[:_SHOWN_LETTERS]!r}")


_NAMED_DAYS_US = 6 * DAY_US  # within it the name of a day says which one
_NAMED_YEAR_US = 300 * DAY_US  # beyond it a day of a month may be of another year


def dated(instant: int, timezone: str, near: int | None) -> str:
    """Return a moment as "Fri 27 Nov 14:20", with its year where it is far from `near`, or `near` is not known."""
    at = local(instant, timezone)
    year = "" if near is not None and abs(instant - near) < _NAMED_YEAR_US else f" {at.year}"
    return f"{day(at)}{year} {at:%H:%M}"


def when(instant: int, timezone: str, near: int) -> str:
    """Return a moment as "Fri 14:20", or with its day of the month where it is a week from `near` or more."""
    at = local(instant, timezone)
    if abs(instant - near) >= _NAMED_DAYS_US:
        return dated(instant, timezone, near)
    return f"{day(at).split(' ', 1)[0]} {at:%H:%M}"


def short_when(instant: int, timezone: str, near: int) -> str:
    """Return a moment for a column: "Fri 14:20", or "27 Nov 14:20" where it is a week from `near` or more."""
    told = when(instant, timezone, near)
    return told if abs(instant - near) < _NAMED_DAYS_US else told.split(" ", 1)[1]


def again(instant: int, timezone: str, near: int) -> str:
    """Return a moment that is told beside `near`: its time alone on the same day."""
    at = local(instant, timezone)
    return f"{at:%H:%M}" if at.date() == local(near, timezone).date() else when(instant, timezone, near)


def about(seconds: int) -> str:
    """Return a span as people say it: "40 s", "28 min", "8 h", "8 h 30 min", "2 d 3 h"."""
    if seconds < MINUTE_SECONDS:
        return f"{seconds} s".replace(" ", NO_BREAK)
    minutes = nearest(seconds, MINUTE_SECONDS)
    if minutes < HOUR_SECONDS // MINUTE_SECONDS:
        return f"{minutes} min".replace(" ", NO_BREAK)
    if seconds < 2 * DAY_SECONDS:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = nearest(seconds, HOUR_SECONDS)
    return _two(hours // 24, "d", hours % 24, "h")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = f" {small} {small_unit}" if small else ""
    return f"{large} {large_unit}{rest}".replace(" ", NO_BREAK)


def brief(seconds: int) -> str:
    """Return a span for a narrow column: "40 s", "28 min", "1.3 h", "2.5 d"."""
    if seconds < HOUR_SECONDS - MINUTE_SECONDS // 2:
        return about(seconds)
    unit, word = (HOUR_SECONDS, "h") if seconds < 2 * DAY_SECONDS else (DAY_SECONDS, "d")
    return f"{nearest(10 * seconds, unit) / 10:,.1f}{NO_BREAK}{word}"


def exact(seconds: int) -> str:
    """Return a span to the second, without the zeros at its end: "9 h 00 min 11 s", "9 h 30 min", "5 h", "40 s"."""
    hours, minutes, rest = seconds // HOUR_SECONDS, seconds // MINUTE_SECONDS % 60, seconds % MINUTE_SECONDS
    parts = [f"{hours:,} h"] if hours else []
    if minutes or (hours and rest):
        parts.append(f"{minutes:02d} min" if hours else f"{minutes} min")
    if rest or not parts:
        parts.append(f"{rest:02d} s" if parts else f"{rest} s")
    return " ".join(parts).replace(" ", NO_BREAK)


def means(said: str, kind: str) -> bool:
    """Say whether a name, as people write it ("H100", "NVIDIA H100 80GB HBM3"), is of a kind of the ledger.

    "RTX 4000" is none of an RTX 4000 Ada, "H100" none of its slices.
    """
    more = _words(kind) - _words(said)
    return _words(said) <= _words(kind) and not more & _OTHER_CHIPS and _slices(said) == _slices(kind)


# Words that make another chip of the name that they follow; a slice of MIG is told by its profile, as in 1g.10gb.
_OTHER_CHIPS = frozenset({"ada", "ti", "super", "blackwell", "d"})
_SLICE = re.compile(r"\b(?:[1-9]c\.)?[1-9]g\.\d+gb", re.IGNORECASE)


def _slices(name: str) -> list[str]:
    return [found.casefold() for found in _SLICE.findall(name)]


def meant(said: Iterable[str], kind: str) -> str | None:
    """Return which of the names is of a kind, the most exact one; None where none is."""
    return max((name for name in said if means(name, kind)), key=lambda name: len(_words(name)), default=None)


@lru_cache(maxsize=4096)
def _words(name: str) -> frozenset[str]:
    return frozenset(sku(name, None).casefold().split("-"))


def of_kinds(task: Task, kinds: Sequence[str]) -> Task:
    """Return a task, and each size of an elastic one, with its durations by the kinds that nodes have."""
    sizes = tuple(of_kinds(replace(one, speeds=task.speeds), kinds) for one in task.sizes)
    known = replace(task, sizes=sizes, durations=_known_on(task, kinds) if task.durations else ())
    return _by_speed(known, kinds) if task.speeds and task.gpus and not task.sizes else known


# A predicted P90 is by so much longer, a P10 shorter: codes do not gain alike from a faster GPU.
_WIDER = Fraction(5, 4)


def _by_speed(task: Task, kinds: Sequence[str]) -> Task:
    """Return a task with its durations on kinds of known speed too: those of the kind that is nearest, by the speeds.

    One figure for all is that of speed 1.
    """
    said = dict(task.speeds)
    speeds = {kind: Fraction(said[name]) for kind in kinds if (name := meant(said, kind)) is not None}
    known = {
        kind: (Fraction(said[name]), one) for kind, one in task.durations if (name := meant(said, kind)) is not None
    }
    if task.duration is not None:
        known = {"speed 1": (Fraction(1), task.duration)}
    found = dict(task.durations)
    for kind, speed in speeds.items() if known else ():
        if kind not in found:
            nearest = min(known, key=lambda each: abs(known[each][0] / speed - 1))
            ratio, one = known[nearest][0] / speed, known[nearest][1]
            wider = _WIDER if ratio != 1 else Fraction(1)
            spread = (one.p10_seconds / wider, one.p50_seconds, one.p90_seconds * wider)
            p10, p50, p90 = (ceil(each * ratio) for each in spread)
            found[kind] = Duration(p10, p50, p90, predicted_from=nearest if ratio != 1 else None)
    return replace(task, duration=None if found else task.duration, durations=tuple(found.items()))


def _known_on(task: Task, kinds: Sequence[str]) -> tuple[tuple[str, Duration], ...]:
    """Return the task's durations by the kinds that nodes have; what the file names and no node is of stays as it is.

    Raises:
        ProblemError: one name is that of several kinds, which differ.
    """
    said = dict(reversed(task.durations))  # of two of one kind the first counts
    found = {kind: name for kind in kinds if (name := meant(said, kind)) is not None}
    for name in said:
        if len(several := [kind for kind, of in found.items() if of == name]) > 1:
            raise ProblemError(f"task {task.name}: {name} may be {' or '.join(several)}; give a duration for each")
    others = {name: name for name in said if name not in found.values()}
    return tuple((kind, said[name]) for kind, name in (found | others).items())
