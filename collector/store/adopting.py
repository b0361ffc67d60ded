"""Make a hot file's books equal to the lake's, where another analyzer has booked since.

What the hot file had beyond them was never booked, and goes: the next pass makes it again from the same samples, as the
one that takes over has done. It is copied day by day, so that it may be cut off anywhere; the last transaction says
that it is done, and from which booking the file goes on.
"""

from typing import TYPE_CHECKING

from agent.wire.units import DAY_US
from collector.errors import StoreError
from collector.store.booking import (
    BookingPosition,
    confirm,
    may_follow,
    newest,
    own_migration,
    place_of,
    set_out,
    stand,
)
from collector.store.books import (
    AMOUNTS,
    DATED,
    WHOLE,
    days_different,
    days_doubled,
    days_with_other_amounts,
    mirrored_columns,
    within,
)

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session

_DAYS_AT_ONCE = 31
_OTHERS = """
SELECT day FROM {hot}.booked h FULL JOIN lake.books.booked b USING (day) WHERE h.booking IS DISTINCT FROM b.booking
"""


def take_up(store: "Store") -> int:
    """Prepare the hot file for a pass: make it equal to the lake's books, and note that it goes on from there.

    Returns how many days were taken over from the lake; 0 where nobody else has booked, and where there is no lake.

    Raises:
        StoreError: the lake cannot be read, its books are of a newer release, or they cannot be taken over.
    """
    adopted = catch_up(store)
    if store.lake is not None and store.hot is not None:
        with store.session() as session:
            set_out(session, store.hot)
    return adopted


def catch_up(store: "Store") -> int:
    """Make the hot file's books equal to the lake's where another has booked since; return how many days that were.

    Raises:
        StoreError: as of take_up.
    """
    if store.lake is None or store.hot is None:
        return 0
    with store.session() as session:
        at, place = newest(session), place_of(session, store.hot)
        if not may_follow(session, store.hot):
            return _adopt(session, store.hot, place)
        if place is not None and at.booking == place.following:
            confirm(session, store.hot, at.booking)  # the lake took it, and we did not live to note it
    return 0


def _adopt(session: "Session", hot: str, place: BookingPosition | None) -> int:
    _require_adoptable(session)
    columns = mirrored_columns(session, hot)
    is_ahead = place is None or place.following is not None
    if is_ahead:  # by what no digest may show; until the end it counts as a file of which nothing is known
        session.execute(f"DELETE FROM {hot}.books_place")
    days = _all_days(session, hot) if is_ahead else _changed_days(session, hot)
    for first in range(0, len(days), _DAYS_AT_ONCE):
        with session.transaction():
            _copy_days(session, hot, columns, days[first : first + _DAYS_AT_ONCE])
    with session.transaction():
        _copy_days(session, hot, columns, _changed_days(session, hot))  # what was booked meanwhile
        for table in [*(table for table, dated in DATED.items() if dated is None), *WHOLE]:
            _copy(session, hot, table, columns[table], "true")
        at = newest(session)
        if at.migration < own_migration():  # who booked did not keep all that this release goes on from
            session.execute(f"DELETE FROM {hot}.analysis")
        stand(session, hot, BookingPosition(at.booking, None))
    return len(days)


def _require_adoptable(session: "Session") -> None:
    at = newest(session)
    if at.migration > own_migration():
        raise StoreError(
            f"the lake's books were written by a newer release ({at.holder}, migration {at.migration}); "
            "upgrade gpuledger here"
        )
    if days := days_doubled(session):
        raise StoreError(
            f"the lake's books have hours of {len(days)} days twice, from two analyzers of an older release; first "
            "start the one that has the ledger in its hot file, which puts them right"
        )


def _copy_days(session: "Session", hot: str, columns: dict[str, list[str]], days: list[int]) -> None:
    for table, dated in {**DATED, **AMOUNTS}.items() if days else ():
        if dated is not None:
            _copy(session, hot, table, columns[table], within(dated, days))
    if days:
        named = f"day IN ({', '.join(map(str, days))})"
        _copy(session, hot, "booked", ["day", "booking"], named)
        session.execute(f"DELETE FROM {hot}.finding_days_made WHERE {named}")  # they are counted again from the ledger


def _copy(session: "Session", hot: str, table: str, columns: list[str], where: str) -> None:
    names = ", ".join(columns)
    session.execute(f"DELETE FROM {hot}.{table} WHERE {where}")
    session.execute(f"INSERT INTO {hot}.{table} ({names}) SELECT {names} FROM lake.books.{table} WHERE {where}")


def _changed_days(session: "Session", hot: str) -> list[int]:
    booked = [day for (day,) in session.rows(_OTHERS.format(hot=hot))]
    return sorted({*booked, *days_different(session, hot), *days_with_other_amounts(session, hot)})


def _all_days(session: "Session", hot: str) -> list[int]:
    """Return every day that either side has a row of."""
    dated = [(table, column) for table, column in {**DATED, **AMOUNTS}.items() if column is not None]
    each = [
        f"SELECT {column} // {DAY_US} * {DAY_US} AS day FROM {place}.{table}"
        for table, column in dated
        for place in (hot, "lake.books")
    ]
    return [day for (day,) in session.rows(f"SELECT DISTINCT day FROM ({' UNION '.join(each)}) ORDER BY day")]
