"""Hours that were priced by another version of the prices than the file has now: their figures are of before.

Nothing is wrong with them; the next analysis prices open hours anew, and writes what closed ones would cost as
adjustments. Until then whoever reads a figure is told.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.report.words import counted

if TYPE_CHECKING:
    from analyzer.config import Settings
    from analyzer.period import Period
    from collector.store.session import Session

SHUT = ("closed", "final")
CURE = "run gpuledger analyze (a server's next pass does the same)"


@dataclass(frozen=True, slots=True)
class Repriced:
    """How many hours of a period bear another version than `now`, of those that may still change and of the others."""

    open_hours: int
    closed_hours: int
    booked: tuple[str, ...]
    now: str


def repriced(session: "Session", period: "Period", settings: "Settings") -> Repriced | None:
    """Return which hours of a period the present prices have not reached; None where all bear them.

    Also None where the settings name no price file: nobody says then that others hold now.

    Raises:
        ConfigError: the price file is wrong.
    """
    if settings.prices is None:
        return None
    now = settings.price_book().version
    rows = session.rows(
        "SELECT status, coalesce(price_version, ''), count(*) FROM ledger_hours "
        "WHERE hour >= $start AND hour < $end AND price_version IS DISTINCT FROM $now GROUP BY ALL",
        {"start": period.start, "end": period.end, "now": now},
    )
    if not rows:
        return None
    shut = sum(hours for status, _, hours in rows if status in SHUT)
    versions = tuple(sorted({version for _, version, _ in rows if version}))
    return Repriced(sum(hours for *_, hours in rows) - shut, shut, versions, now)


def repriced_words(one: Repriced | None) -> list[str]:
    """Return the sentence for whoever reads the figures, without its full stop; nothing where there is none to say."""
    if one is None:
        return []
    before = f"book {', '.join(one.booked)}" if one.booked else "no price"
    many = one.open_hours + one.closed_hours
    said = (
        f"prices changed after {counted(many, 'hour')} {'was' if many == 1 else 'were'} booked: {before}, now {one.now}"
    )
    if one.closed_hours == many:
        return [f"{said}; the figures of closed hours stay, and {_correction(one)}: {CURE}"]
    if one.closed_hours:
        return [f"{said}; {CURE}; of {counted(one.closed_hours, 'closed hour')} {_correction(one)}"]
    return [f"{said}; {CURE}"]


def _correction(one: Repriced) -> str:
    return "the difference becomes a correction" if one.closed_hours == 1 else "the differences become corrections"
