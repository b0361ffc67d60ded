"""The chain of bookings: at which one the lake's books stand, and from which one a hot file goes on.

Two analyzers with a hot file each may book into one lake. Every transaction that books names the booking that it
follows and puts its own in its place, in one row that all of them write anew: of two that follow the same one the lake
commits the first and undoes the other, whatever clocks and leases say (DuckLake: "another transaction has deleted"; a
catalogue in SQLite is locked). Which days each booking replaced is kept beside it, so that other hot files can follow.
"""

import socket
import time
import uuid
from dataclasses import dataclass

from collector.errors import TakenError
from collector.store.lake import delete
from collector.store.schemas import available
from collector.store.session import OpenStore, Session

FIRST = ""  # nobody has booked yet, or only a release that did not say so
# In the lake: the newest booking, one row; and by which booking each UTC day was replaced last.
IN_LAKE = {
    "bookings": ("booking VARCHAR", "holder VARCHAR", "booked_at BIGINT", "migration BIGINT"),
    "booked": ("day BIGINT", "booking VARCHAR"),
}
# In the hot file: the booking of the lake that it was equal to, the one under which it has gone on since, and the days.
_IN_HOT = (
    "CREATE TABLE IF NOT EXISTS books_place (booking VARCHAR NOT NULL, next_booking VARCHAR)",
    "CREATE TABLE IF NOT EXISTS booked (day BIGINT NOT NULL, booking VARCHAR NOT NULL)",
)
_LAKE_IS_AHEAD = """
SELECT EXISTS (SELECT 1 FROM lake.books.ledger_hours) AND (NOT EXISTS (SELECT 1 FROM {hot}.ledger_hours)
    OR coalesce(
        (SELECT max(analysed_at) FROM lake.books.analysis) > (SELECT max(analysed_at) FROM {hot}.analysis), false))
"""


@dataclass(frozen=True, slots=True)
class Booking:
    """The newest booking of a lake. `migration` is that of the release that booked; 0 where none has said."""

    booking: str
    holder: str
    booked_at: int  # microseconds UTC, by the clock of who booked
    migration: int


@dataclass(frozen=True, slots=True)
class BookingPosition:
    """Where a hot file stands: equal to the lake as of `booking`, or ahead by what it will book as `following`."""

    booking: str
    following: str | None


def make_places(hot: Session) -> None:
    """Make the hot file's tables of this module; only a store with a lake needs them."""
    for statement in _IN_HOT:
        hot.execute(statement)


def newest(session: Session) -> Booking:
    """Return the lake's newest booking, or the first of all where none is named.

    Raises:
        StoreError: the lake cannot be read.
    """
    rows = session.rows("SELECT booking, holder, booked_at, migration FROM lake.books.bookings")
    return Booking(*rows[0]) if rows else Booking(FIRST, "", 0, 0)


def place_of(session: Session, hot: str) -> BookingPosition | None:
    """Return where the hot file stands; None where that is not known."""
    rows = session.rows(f"SELECT booking, next_booking FROM {hot}.books_place")
    return BookingPosition(*rows[0]) if rows else None


def may_follow(session: Session, hot: str) -> bool:
    """Return whether the hot file goes on from what the lake says now: nobody else has booked since it was equal.

    Where no booking was ever named, the hot file goes on unless the lake has a ledger and it has none, or an older one.
    """
    at, place = newest(session), place_of(session, hot)
    if place is not None and at.booking in (place.booking, place.following):
        return True
    return at.booking == FIRST and not session.row(_LAKE_IS_AHEAD.format(hot=hot))[0]


def set_out(session: Session, hot: str) -> str:
    """Write down in the hot file under which name it will book next, and return that name.

    It is written before anything is booked: a lake that took a booking, and died before it said so, is then understood.
    """
    place = place_of(session, hot)
    if place is not None and place.following is not None:
        return place.following
    following = uuid.uuid4().hex
    with session.transaction():
        stand(session, hot, BookingPosition(newest(session).booking, following))
    return following


def follow(session: Session, hot: str, booking: str, holder: str) -> None:
    """Put a booking in the place of the one that it follows, in the lake's transaction that books.

    Raises:
        TakenError: another analyzer has booked meanwhile; the transaction must be given up.
    """
    if not may_follow(session, hot):
        raise TakenError(taken(newest(session)))
    delete(session, "DELETE FROM lake.books.bookings")
    said = [booking, holder, time.time_ns() // 1000, own_migration()]
    session.execute("INSERT INTO lake.books.bookings VALUES (?, ?, ?, ?)", said)


def hold(session: Session) -> None:
    """Write the newest booking anew, unchanged: a transaction that books meanwhile then conflicts with this one."""
    at = newest(session)
    delete(session, "DELETE FROM lake.books.bookings")
    said = [at.booking, at.holder, at.booked_at, at.migration]
    session.execute("INSERT INTO lake.books.bookings VALUES (?, ?, ?, ?)", said)


def note_days(session: Session, booking: str, days: list[int]) -> None:
    """Write down in the lake's transaction that these days, by their first microsecond, are this booking's."""
    if days:
        delete(session, f"DELETE FROM lake.books.booked WHERE day IN ({', '.join(map(str, days))})")
        session.execute("INSERT INTO lake.books.booked SELECT unnest(?::BIGINT[]), ?", [days, booking])


def confirm(session: Session, hot: str, booking: str) -> None:
    """Write into the hot file that it is equal to the lake as of this booking, if that is the newest still."""
    with session.transaction():
        if newest(session).booking == booking:
            session.execute(f"DELETE FROM {hot}.booked")
            session.execute(f"INSERT INTO {hot}.booked SELECT day, booking FROM lake.books.booked")
            stand(session, hot, BookingPosition(booking, None))


def stand(session: Session, hot: str, place: BookingPosition) -> None:
    """Write down where the hot file stands, in the transaction of the hot file that is open."""
    session.execute(f"DELETE FROM {hot}.books_place")
    session.execute(f"INSERT INTO {hot}.books_place VALUES (?, ?)", [place.booking, place.following])


def taken(by: Booking) -> str:
    """Return the sentence for a pass that comes too late."""
    return (
        f"{by.holder or 'another analyzer'} has booked into this lake since this pass began; nothing of "
        f"the pass was booked, and the next continues from the lake's books"
    )


def own_migration() -> int:
    """Return the newest migration that this release knows."""
    return available()[-1][0]


def holder_of(store: OpenStore) -> str:
    """Return what an analyzer without another name is called: its host and its hot file."""
    return f"{socket.gethostname()}:{store.path or 'memory'}"
