"""Two prices of one thing at one time would make the ledger depend on the order of lines: they are refused."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from analyzer.errors import ConfigError


class Dated(Protocol):
    """Anything that holds for one thing over one period."""

    @property
    def subject(self) -> tuple[str | None, ...]:
        """What it is about: two of one subject must not hold at once."""

    @property
    def told(self) -> str:
        """The subject in words."""

    @property
    def starts_at(self) -> int:
        """From when it holds, in microseconds."""

    @property
    def ends_at(self) -> int | None:
        """Up to when, exclusive; None for good."""

    @property
    def source(self) -> str:
        """Who says so."""


DatedT = TypeVar("DatedT", bound=Dated)


def _subject(row: Dated) -> tuple[object, ...]:
    return row.subject


def refuse_overlaps(
    where: str,
    rows: Sequence[DatedT],
    what: str = "prices",
    subject: Callable[[DatedT], tuple[object, ...]] = _subject,
    way_out: str = "end one with 'until'",
) -> None:
    """Do nothing where no two rows of one subject hold at the same time.

    Raises:
        ConfigError: two do; the sentence names both.
    """
    for number, row in enumerate(rows):
        for other in rows[:number]:
            if subject(row) == subject(other) and _begins_in(row, other) | _begins_in(other, row):
                raise ConfigError(
                    f"{where}: two {what} of {row.told} at the same time, "
                    f"{row.source!r} and {other.source!r}; {way_out}"
                )


def _begins_in(row: Dated, other: Dated) -> bool:
    return other.starts_at <= row.starts_at and (other.ends_at is None or row.starts_at < other.ends_at)
