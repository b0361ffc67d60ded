"""What changed after hours had closed for finance: they keep their figures, and corrections are booked later."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.ledger.closing import is_reached
from analyzer.ledger.teams import TeamBook, team_book
from analyzer.period import Period, local
from analyzer.prices.price_book import PriceBook, price_book
from analyzer.settings.settings import Settings

if TYPE_CHECKING:
    from collector.store.session import Session

_BOOKED = """
WITH shut AS (SELECT hour, closed_at FROM closed_hours WHERE hour >= $start AND hour < $end), learned AS (
    SELECT a.hour, a.recorded_at, CASE WHEN a.is_moved THEN 'teams' WHEN a.reason = 'a price changed' THEN 'prices'
        WHEN a.reason = 'the rules changed' THEN 'rules' END AS kind
    FROM adjustments a JOIN shut s ON s.hour = a.hour AND a.recorded_at >= s.closed_at
)
SELECT DISTINCT recorded_at, kind FROM learned WHERE kind IS NOT NULL
UNION
SELECT DISTINCT r.recorded_at, 'charge rates' FROM charge_corrections r
JOIN shut s ON s.hour = r.hour AND r.recorded_at >= s.closed_at
LEFT JOIN learned l ON l.hour = r.hour AND l.recorded_at = r.recorded_at
WHERE r.is_of_rates OR l.hour IS NULL
ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class Edited:
    """What changed after the hours of a period had closed, and in which months its corrections are booked.

    `is_waiting`: the teams file or the charge rates say otherwise than when corrections were last made.
    """

    label: str
    kinds: tuple[str, ...]
    months: tuple[str, ...]
    is_waiting: bool


def edited(session: "Session", period: Period, settings: Settings) -> Edited | None:
    """Return what was edited after hours of a period had closed; None where nothing was, or nothing has closed.

    Raises:
        ConfigError: the teams file or the price file is wrong.
    """
    asked: dict[str, object] = {"start": period.start, "end": period.end}
    if closed_at(session, period) is None:
        return None
    rows = session.rows(_BOOKED, asked)
    months = tuple(sorted({f"{local(recorded, period.timezone):%Y-%m}" for recorded, _ in rows}))
    is_waiting = _is_waiting(session, settings)
    if not rows and not is_waiting:
        return None
    return Edited(period.label, tuple(sorted({kind for _, kind in rows})), months, is_waiting)


def closed_at(session: "Session", period: Period) -> int | None:
    """Return when the terms of a period were closed, of its hours the last; None where any is not, or is to come."""
    at, is_open = session.row(
        "SELECT max(c.closed_at), coalesce(bool_or(c.hour IS NULL), true) FROM ledger_hours h "
        "LEFT JOIN closed_hours c ON c.hour = h.hour WHERE h.hour >= $start AND h.hour < $end",
        {"start": period.start, "end": period.end},
    )
    return None if is_open or not is_reached(session, period.end) else int(at)


def _is_waiting(session: "Session", settings: Settings) -> bool:
    """Return whether a file that the settings name is another than the last corrections were made by."""
    applied = session.rows("SELECT terms_version FROM terms_applied")
    if not applied:
        return False
    teams, _, charges = str(applied[0][0]).partition(" ")
    now_teams, _, now_charges = terms_version(settings).partition(" ")
    return (settings.teams is not None and teams != now_teams) or (
        settings.prices is not None and charges != now_charges
    )


def edited_words(one: Edited | None) -> list[str]:
    """Return the sentence for whoever reads the closed figures, without its full stop; nothing where there is none."""
    if one is None:
        return []
    kept = f"after {one.label} was final; it keeps its figures"
    said = []
    if one.kinds:
        said.append(f"{' and '.join(one.kinds)} changed {kept}, corrections are booked in {', '.join(one.months)}")
    if one.is_waiting:
        said.append(f"teams or charge rates were edited {kept}, gpuledger admin analyze books the corrections")
    return said


def terms_version(settings: Settings, teams: TeamBook | None = None, prices: PriceBook | None = None) -> str:
    """Return the digest of what closes with a final month: who is whose, and what is charged to whom.

    Books that are given are not read again.
    """
    book = price_book(settings) if prices is None else prices
    return f"{(team_book(settings) if teams is None else teams).version} {book.charges_version}"
