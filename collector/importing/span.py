"""The span of time that history is brought of: `--since 4w --until 2026-11-01`, as microseconds UTC."""

import re
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.wire.units import SECOND_US
from collector.errors import ConfigError

_BACK = re.compile(r"(\d{1,4})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_EXAMPLES = "4w, 30d, 12h, 2026-11-01, 2026-11-01T08:00"


@dataclass(frozen=True, slots=True)
class Span:
    """From `since` until `until`, microseconds UTC, half-open."""

    since: int
    until: int

    @property
    def label(self) -> str:
        """Its length as people say it: "4 weeks", "10 days", "12 hours"."""
        hours = round((self.until - self.since) / 3600 / SECOND_US)
        for name, length in (("week", 168), ("day", 24)):
            if hours >= length and hours % length == 0:
                return counted(hours // length, name)
        return counted(round(hours / 24), "day") if hours > 48 else counted(hours, "hour")


def zone(name: str) -> ZoneInfo:
    """Return a time zone by its name.

    Raises:
        ConfigError: this host knows none of the name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"{name!r} is not a time zone known to this host: use a name such as Europe/Berlin"
        ) from error


def span(since: str, until: str | None, now: int, timezone: ZoneInfo) -> Span:
    """Return the span that the words mean; lengths count back from its end, days begin at midnight of the zone.

    Raises:
        ConfigError: the words name no time, or the span has no length.
    """
    end = now if until is None or until == "now" else _moment(until, now, timezone, "--until")
    start = _moment(since, end, timezone, "--since")
    if end > now:
        raise ConfigError(f"--until {until} is in the future: history ends now")
    if start >= end:
        raise ConfigError(f"--since {since} is not before --until {until or 'now'}")
    return Span(start, end)


def _moment(text: str, end: int, timezone: ZoneInfo, flag: str) -> int:
    if found := _BACK.fullmatch(text.strip().lower()):
        return end - int(found[1]) * _HOURS[found[2]] * 3600 * SECOND_US
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(f"{flag} {text!r} is not a valid time: use {_EXAMPLES}") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone)
    return round(moment.timestamp() * SECOND_US)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, "2 days"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
