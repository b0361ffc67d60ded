"""Hours that were priced by another version of the prices than the file has now: their figures are of before.

Nothing is wrong with them; the next analysis prices open hours anew, and writes what closed ones would cost as
adjustments. Until then whoever reads a figure is told.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.period import Period
from analyzer.prices.price_book import price_book
from analyzer.settings.settings import Settings
from analyzer.text.words import counted

if TYPE_CHECKING:
    from collector.store.session import Session

_SHUT = ("closed", "final")
_CURE = "run gpuledger admin analyze"


@dataclass(frozen=True, slots=True)
class Repriced:
    """How many hours of a period bear another version than `now`, of those that may still change and of the others."""

    open_hours: int
    closed_hours: int
    booked: tuple[str, ...]
    now: str


def repriced(session: "Session", period: Period, settings: Settings) -> Repriced | None:
    """Return which hours of a period the present prices have not reached; None where all bear them.

    Also None where the settings name no price file: nobody says then that others hold now.

    Raises:
        ConfigError: the price file is wrong.
    """
    if settings.prices is None:
        return None
    now = price_book(settings).version
    rows = session.rows(
        "SELECT status, coalesce(price_version, ''), count(*) FROM ledger_hours "
        "WHERE hour >= $start AND hour < $end AND price_version IS DISTINCT FROM $now GROUP BY ALL",
        {"start": period.start, "end": period.end, "now": now},
    )
    if not rows:
        return None
    shut = sum(hours for status, _, hours in rows if status in _SHUT)
    versions = tuple(sorted({version for _, version, _ in rows if version}))
    return Repriced(sum(hours for *_, hours in rows) - shut, shut, versions, now)


def repriced_words(one: Repriced | None) -> list[str]:
    """Return the sentence for whoever reads the figures, without its full stop; nothing where there is none to say."""
    if one is None:
        return []
    many = one.open_hours + one.closed_hours
    before = f"book {', '.join(one.booked)}" if one.booked else "no price"
    were = f"{counted(many, 'hour')} {'was' if many == 1 else 'were'}"
    said = f"prices changed after {were} booked ({before}, now {one.now}): {_CURE}"
    if not one.closed_hours:
        return [said]
    which = "closed hours" if one.closed_hours == many else f"{one.closed_hours:,} of them are closed,"
    return [f"{said}; {which} keep their figures and get corrections"]
