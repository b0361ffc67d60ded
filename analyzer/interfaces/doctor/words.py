"""Sizes, spans and moments as the doctor's page says them."""

from datetime import UTC, datetime

from agent.wire.units import DAY_SECONDS, HOUR_SECONDS, MINUTE_SECONDS, SECOND_US

_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def size(count: float) -> str:
    """Return bytes in the largest unit that leaves a digit before the point."""
    for scale, unit in _SIZES:
        if count >= scale:
            return f"{count / scale:.3g} {unit}" if count < 100 * scale else f"{count / scale:,.0f} {unit}"
    return f"{count:.0f} bytes"


def length_words(seconds: float) -> str:
    """Return a length of time in one unit."""
    for scale, unit in ((2 * DAY_SECONDS, "d"), (2 * HOUR_SECONDS, "h"), (2 * MINUTE_SECONDS, "min")):
        if seconds >= scale:
            return f"{seconds / (scale / 2):.0f} {unit}"
    return f"{seconds:.0f} s"


def minute_words(microseconds: int) -> str:
    """Return a time to the minute, UTC."""
    return datetime.fromtimestamp(microseconds / SECOND_US, UTC).strftime("%Y-%m-%d %H:%M")


def some(names: list[str], shown: int = 5) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
