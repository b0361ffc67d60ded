"""One thing that is wrong with the prices, and the moments that complaints speak of."""

from dataclasses import dataclass
from datetime import UTC, date, datetime


@dataclass(frozen=True, slots=True)
class Complaint:
    """One fault of the price book: its kind as in docs/prices.md, and a sentence with the way out."""

    kind: str
    sentence: str


def midnight_us(day: date) -> int:
    """Return the first microsecond of a UTC day."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000


def day_of(at_us: int) -> date:
    """Return the UTC day of a microsecond."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).date()
