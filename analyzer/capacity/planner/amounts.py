"""Amounts and moments as people write them: 128 GB, 1 h 30 min, 20 GB in 30 min, Friday 18:00. Exact, and rounded up.

What reads one raises ValueError where it is none: the end of a sentence, whose beginning says the place.
"""

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Final
from zoneinfo import ZoneInfo

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.problem import TaskFileError, TransferRate
from analyzer.period import WEEKDAYS
from analyzer.text.words import plain

_SHOWN_LETTERS = 40  # of a value that is none
_BYTES: Final[dict[str, int]] = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGTP", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", 1)},
}
_SECONDS: Final[dict[str, int]] = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_SIZE = re.compile(rf"({_NUMBER})\s*({'|'.join(_BYTES)})")
_PART = re.compile(rf"({_NUMBER})\s*(min|s|m|h|d)\s*")
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


def span_seconds(value: object) -> int:
    """Return a duration in seconds, rounded up."""
    if _is_zero(value):
        return 0
    total, at = Fraction(0), 0
    text = value.strip() if isinstance(value, str) else ""
    while found := _PART.match(text, at):
        total, at = total + Fraction(Decimal(found[1])) * _SECONDS[found[2]], found.end()
    if not text or at < len(text):
        raise must_be("a duration with its unit, as in 3 h or 1 h 30 min", value)
    return ceil(total)


def transfer_rate(value: object) -> TransferRate:
    """Return a transfer rate: 1 GB/s, or 20 GB in 30 min."""
    found = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise must_be("a rate, as in 1 GB/s or 20 GB in 30 min", value)
    amount, seconds = size_bytes(found[1]), span_seconds(found[2] or "1 s")
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
