"""Moments as people write them: Friday 18:00, tomorrow 08:00, in 20 h, 2026-11-23T08:00; on the site's clock."""

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.errors import TaskFileError
from analyzer.capacity.planner.units import span_seconds
from analyzer.period import WEEKDAYS

_CLOCK = r"([01]?[0-9]|2[0-4]):([0-5][0-9])"
_DAY = re.compile(rf"(today|tomorrow|{'|'.join(WEEKDAYS)})\s+{_CLOCK}", re.IGNORECASE)
_HINT = "a moment, as in Friday 18:00, tomorrow 08:00, in 20 h or 2026-11-23T08:00"


def parse_moment(where: str, said: object, base: int, timezone: str) -> int:
    """Return a moment in microseconds UTC; what counts from something counts from `base`, the next such day from there.

    Raises:
        TaskFileError: it is none.
    """
    zone = ZoneInfo(timezone)
    if isinstance(said, datetime):
        return _micros(said) if said.tzinfo else _on_clock(where, said, zone)
    if isinstance(said, str):
        text = said.strip()
        if text.lower().startswith("in "):
            return base + span_seconds(where, text[3:]) * SECOND_US
        if found := _DAY.fullmatch(text):
            return _of_day(found, base, zone)
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            at = None
        if at is not None and len(text) > len("2026-11-23"):
            return _micros(at) if at.tzinfo else _on_clock(where, at, zone)
    if isinstance(said, date) or (isinstance(said, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", said)):
        raise TaskFileError(f"{where} is a whole day; say the hour as well, as in 2026-11-23T18:00")
    raise TaskFileError(f"{where} must be {_HINT}")


def _on_clock(where: str, said: datetime, zone: ZoneInfo) -> int:
    """Return a time of the site's clock. Of the hour that it shows twice it is the first."""
    at = said.replace(tzinfo=zone)
    if at.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != said:
        raise TaskFileError(
            f"{where}: clocks of {zone.key} go forward over {said:%Y-%m-%d %H:%M}, which never comes; say another time"
        )
    return _micros(at)


def _of_day(found: re.Match[str], base: int, zone: ZoneInfo) -> int:
    """Return the first such hour after the base: on Friday at 19:00 "Friday 18:00" is a week away."""
    now = datetime.fromtimestamp(base / SECOND_US, zone)
    word, hour, minute = found[1].lower(), int(found[2]), int(found[3])
    ahead = {"today": 0, "tomorrow": 1}.get(word)
    if ahead is None:
        ahead = (WEEKDAYS.index(word) - now.weekday()) % 7
    at = _at(now, ahead, hour, minute)
    if at <= now and word in WEEKDAYS:
        at = _at(now, ahead + 7, hour, minute)
    return _micros(at)


def _at(now: datetime, days: int, hour: int, minute: int) -> datetime:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0) + timedelta(days=days)
    return midnight + timedelta(hours=hour, minutes=minute)


def _micros(at: datetime) -> int:
    return round(at.timestamp() * SECOND_US)
