"""The books: the ledger and all that the analyzer writes, mirrored into the lake for readers of other processes.

The analyzer writes them into its hot file, which no other process can open. After a pass, the days that it made anew
are replaced in `lake.books`, in one transaction of the lake: a reader sees a whole day as it was, or as it is. It names
the booking that it follows (booking.py), so that of two analyzers only one can book.

Where another analyzer has booked since, a hot file's books are made equal to the lake's. What it had beyond them was
never booked, and goes: the next pass makes it again from the same samples, as the one that takes over has done. It is
copied day by day, so that it may be cut off anywhere; the last transaction says that it is done, and from which booking
the file goes on.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from agent.wire.units import DAY_US
from collector.errors import StoreError, TakenError
from collector.store import booking
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
from collector.store.lake import delete, tables_with_rows
from collector.store.schemas import Columns, add_in_transaction, add_missing, columns_there, is_whole
from collector.store.seal_mark import make_sealed_table
from collector.store.session import OpenStore, Session

ERASED = "erased-"  # how a name begins that stands for one that was erased (collector/access/erasure.py)
# Each table with the column that says which day a row belongs to; None where the whole table is replaced.
DATED: dict[str, str | None] = {
    "ledger": "hour",
    "ledger_hours": "hour",
    "adjustments": "hour",
    "closed_hours": "hour",
    "closed_runs": "hour",
    "closed_nodes": "hour",
    "closed_charges": "hour",
    "charge_corrections": "hour",
    "not_evaluated": "hour",
    "run_activity": "hour",
    "run_doings": "hour",
    "run_loads": "hour",
    "hour_holders": "hour",
    "checkpoints": "minute",
    "run_windows": "window_start",
    "run_timeline": "bucket_start",
    "in_rack_rates": "window_start",
    "fabric_rates": "hour",
    "runs": None,
    "run_gpus": None,
    "gpus_sighted": None,
    "services_sighted": None,
    "analysis": None,
    "analysed_until": None,
}
# Beside the ledger, by the hour as well: amounts. They may change where the ledger does not (an upgrade books them),
# and their days are then replaced alone.
_AMOUNTS = ("served", "latency", "progress", "energy", "activity", "traffic")
AMOUNTS = dict.fromkeys((*(f"{table}_amounts" for table in _AMOUNTS), "amount_hours", "amount_corrections"), "hour")
# Small tables that are made whole by each pass: replaced where they differ.
WHOLE = ("finding_book", "terms_applied")
# What people said, what was recommended, what the rules were and which invoices matched, by its key: rows are only ever
# added, so that neither side loses what the other has.
_SAID = {
    "finding_judgements": "judgement_id",
    "finding_mutes": "mute_id",
    "rule_versions": "rules_version",
    "closed_rates": "rates_version",
    "recommendation_predictions": "prediction_id",
    "recommendation_turns": "turn",
    "recommendation_applied": "recommendation_id",
    "recommendation_words": "word_id",
    "invoice_matches": "match_id",
}
_MIRRORED = (*DATED, *AMOUNTS, *WHOLE, *_SAID)
_DIFFERENT = """
SELECT DISTINCT hour // {day_us} * {day_us} AS day
FROM {hot}.ledger_hours h FULL JOIN lake.books.ledger_hours b USING (hour)
WHERE (h.status, h.input_digest) IS DISTINCT FROM (b.status, b.input_digest) ORDER BY day
"""
_OTHER_AMOUNTS = """
SELECT DISTINCT hour // {day_us} * {day_us} AS day FROM (
    SELECT hour FROM {hot}.amount_hours h FULL JOIN lake.books.amount_hours b USING (hour)
    WHERE (h.booked_batch, h.served, h.latency, h.progress, h.energy, h.traffic)
        IS DISTINCT FROM (b.booked_batch, b.served, b.latency, b.progress, b.energy, b.traffic)
    UNION
    SELECT hour FROM (SELECT hour, count(*) AS n FROM {hot}.amount_corrections GROUP BY hour) h
    FULL JOIN (SELECT hour, count(*) AS n FROM lake.books.amount_corrections GROUP BY hour) b USING (hour)
    WHERE h.n IS DISTINCT FROM b.n
) ORDER BY day
"""
# An earlier release let two analyzers book the same hours side by side.
_DOUBLED = """
SELECT DISTINCT hour // {day_us} * {day_us} AS day
FROM (SELECT hour FROM lake.books.ledger_hours GROUP BY hour HAVING count(*) > 1) ORDER BY day
"""


def make_book_tables(session: Session, hot: str, there: Mapping[str, Columns]) -> None:
    """Make in the lake what is missing of the hot file's books: tables and columns, without keys.

    `there` is what was there a moment ago.
    """
    booking.make_places(session)
    make_sealed_table(session)
    if not is_whole(_of_books(there[hot]), there.get("lake.books", {})):
        add_in_transaction(session, lambda adding: _add_missing_books(adding, hot))


def _of_books(own: Columns) -> dict[str, Sequence[str]]:
    """Return the definitions of the tables of the lake's books, where the hot file has these."""
    mirrored = {table: [" ".join(column) for column in own[table].items()] for table in sorted(_MIRRORED)}
    return {**mirrored, **booking.IN_LAKE}


def _add_missing_books(session: Session, hot: str) -> None:
    known = columns_there(session)
    there, tables = known.get("lake.books", {}), _of_books(known[hot])
    if not there:
        session.execute("CREATE SCHEMA IF NOT EXISTS lake.books")
    if "bookings" in add_missing(session, "lake.books", tables, there):
        # From here on there always is a row to follow: who makes the table makes it, and only one can make the table.
        session.execute("INSERT INTO lake.books.bookings VALUES (?, '', 0, 0)", [booking.FIRST])


def mirror(store: OpenStore, holder: str | None = None) -> int:
    """Bring the lake's books up to the hot file's, and return how many UTC days were replaced.

    Which days differ is seen from their hours' digests, so that a pass that was cut off is made good by the next. Days
    that have an hour twice are replaced as well. `holder` is what whoever books is called.

    Raises:
        TakenError: another analyzer has booked since this hot file was equal to the lake; nothing was changed.
        StoreError: the lake refused; nothing of it was changed.
    """
    if store.lake is None or store.hot is None:
        return 0
    with store.turn, store.session() as session:
        following = booking.set_out(session, store.hot)
        try:
            with session.transaction():
                days = _mirror(session, store.hot, following, holder or booking.holder_of(store))
        except StoreError as error:
            # Another that booked at the same time shows as a conflict, in words of DuckLake.
            if isinstance(error, TakenError) or booking.may_follow(session, store.hot):
                raise
            raise TakenError(booking.taken(booking.newest(session))) from error
        if not days and booking.may_follow(session, store.hot):
            following = booking.newest(session).booking  # nothing was left to book: equal as it stands
        booking.confirm(session, store.hot, following)
    mirror_findings(store)
    return len(days)


def _mirror(session: Session, hot: str, following: str, holder: str) -> list[int]:
    days = sorted({*_days_different(session, hot), *days_doubled(session)})
    days_of_amounts = sorted({*days, *_days_with_other_amounts(session, hot)})
    if not days_of_amounts:
        return []
    booking.follow(session, hot, following, holder)
    booking.note_days(session, following, days_of_amounts)
    there = tables_with_rows(session, "books")
    for table, dated in {**DATED, **AMOUNTS}.items():
        replaced = days_of_amounts if table in AMOUNTS else days
        if dated and not replaced:
            continue
        where = within(dated, replaced) if dated else "true"
        if table == "run_doings" and not session.rows("SELECT 1 FROM lake.books.run_doings LIMIT 1"):
            where = "true"  # an earlier release did not mirror it
        if table in there:
            delete(session, f"DELETE FROM lake.books.{table} WHERE {where}")
        if session.rows(f"SELECT 1 FROM {hot}.{table} WHERE {where} LIMIT 1"):
            session.execute(f"INSERT INTO lake.books.{table} BY NAME SELECT * FROM {hot}.{table} WHERE {where}")
    return days_of_amounts


def within(column: str, days: Sequence[int]) -> str:
    """Return the condition that a row is of one of these UTC days, given by their first microsecond."""
    return " OR ".join(f"{column} BETWEEN {day} AND {day + DAY_US - 1}" for day in days)


def _days_different(session: Session, hot: str) -> list[int]:
    """Return the days whose hours the hot file and the lake do not say alike."""
    return [day for (day,) in session.rows(_DIFFERENT.format(hot=hot, day_us=DAY_US))]


def _days_with_other_amounts(session: Session, hot: str) -> list[int]:
    """Return the days of whose hours the hot file and the lake have not booked the same amounts."""
    return [day for (day,) in session.rows(_OTHER_AMOUNTS.format(hot=hot, day_us=DAY_US))]


def days_doubled(session: Session) -> list[int]:
    """Return the days of which the lake's books have an hour more than once; there are none such."""
    return [day for (day,) in session.rows(_DOUBLED.format(day_us=DAY_US))]


def mirror_findings(store: OpenStore) -> None:
    """Bring what is kept of findings to the other side: the book to the lake, what people said either way.

    The book of a hot file that is behind the lake's books stays where it is.

    Raises:
        StoreError: the lake refused; nothing of it was changed.
    """
    if store.lake is None or store.hot is None:
        return
    with store.turn, store.session() as session:
        with session.transaction():
            if booking.may_follow(session, store.hot):
                _mirror_whole(session, store.hot)
            said = [table for table in _SAID if session.rows(f"SELECT 1 FROM {store.hot}.{table} LIMIT 1")]
            _add_said(session, said, store.hot, "lake.books")
        with session.transaction():
            _add_said(session, _SAID.keys() & tables_with_rows(session, "books"), "lake.books", store.hot)


def _mirror_whole(session: Session, hot: str) -> None:
    there = tables_with_rows(session, "books")
    for table in WHOLE:
        if table not in there and not session.rows(f"SELECT 1 FROM {hot}.{table} LIMIT 1"):
            continue
        columns = [column for column, *_ in session.rows(f"DESCRIBE {hot}.{table}")]
        # Hashed twice: what an even number of rows have in common would cancel out.
        said = f"SELECT (count(*), bit_xor(hash(hash({', '.join(columns)})))) FROM {{}}.{table}"
        if session.row(said.format(hot)) != session.row(said.format("lake.books")):
            booking.hold(session)
            delete(session, f"DELETE FROM lake.books.{table}")
            session.execute(f"INSERT INTO lake.books.{table} BY NAME SELECT * FROM {hot}.{table}")


def _add_said(session: Session, tables: Iterable[str], source: str, target: str) -> None:
    for table in sorted(tables):
        key = _SAID[table]
        session.execute(
            f"INSERT INTO {target}.{table} BY NAME SELECT * FROM {source}.{table} "
            f"WHERE {key} NOT IN (SELECT {key} FROM {target}.{table})"
        )


_DAYS_AT_ONCE = 31
_OTHERS = """
SELECT day FROM {hot}.booked h FULL JOIN lake.books.booked b USING (day) WHERE h.booking IS DISTINCT FROM b.booking
"""


def take_up(store: OpenStore) -> int:
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


def catch_up(store: OpenStore) -> int:
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


def _adopt(session: Session, hot: str, place: BookingPosition | None) -> int:
    _require_adoptable(session)
    columns = columns_there(session)[hot]
    is_ahead = place is None or place.following is not None
    if is_ahead:  # by what no digest may show; until the end it counts as a file of which nothing is known
        session.execute(f"DELETE FROM {hot}.books_place")
    days = _all_days(session, hot, _written(session)) if is_ahead else _changed_days(session, hot)
    for first in range(0, len(days), _DAYS_AT_ONCE):
        with session.transaction():
            _copy_days(session, hot, columns, days[first : first + _DAYS_AT_ONCE])
    with session.transaction():
        _copy_days(session, hot, columns, _changed_days(session, hot))  # what was booked meanwhile
        there = _written(session)
        for table in [*(table for table, dated in DATED.items() if dated is None), *WHOLE]:
            _copy(session, hot, table, columns[table], "true", there)
        at = newest(session)
        if at.migration < own_migration():  # who booked did not keep all that this release goes on from
            session.execute(f"DELETE FROM {hot}.analysis")
        stand(session, hot, BookingPosition(at.booking, None))
    return len(days)


def _require_adoptable(session: Session) -> None:
    at = newest(session)
    if at.migration > own_migration():
        raise StoreError(
            f"the lake's books were written by a newer release ({at.holder}, migration {at.migration}); "
            "upgrade gpuledger here"
        )
    if days := days_doubled(session):
        raise StoreError(
            f"the lake's books have hours of {len(days)} days twice, from two analyzers of an older "
            f"release; first start the one with the ledger in its hot file, which corrects them"
        )


def _written(session: Session) -> set[str]:
    """Return the tables of the lake's books that may have a row; in a transaction, all that have one for it."""
    newest(session)  # the transaction sees the lake as of when it first read of it: no later than the question
    return tables_with_rows(session, "books")


def _copy_days(session: Session, hot: str, columns: Columns, days: list[int]) -> None:
    if not days:
        return
    there = _written(session)
    for table, dated in {**DATED, **AMOUNTS}.items():
        if dated is not None:
            _copy(session, hot, table, columns[table], within(dated, days), there)
    named = f"day IN ({', '.join(map(str, days))})"
    _copy(session, hot, "booked", ["day", "booking"], named, there)
    session.execute(f"DELETE FROM {hot}.finding_days_made WHERE {named}")  # they are counted again from the ledger


def _copy(session: Session, hot: str, table: str, columns: Iterable[str], where: str, there: Set[str]) -> None:
    names = ", ".join(columns)
    session.execute(f"DELETE FROM {hot}.{table} WHERE {where}")
    if table in there:
        session.execute(f"INSERT INTO {hot}.{table} ({names}) SELECT {names} FROM lake.books.{table} WHERE {where}")


def _changed_days(session: Session, hot: str) -> list[int]:
    booked = [day for (day,) in session.rows(_OTHERS.format(hot=hot))]
    return sorted({*booked, *_days_different(session, hot), *_days_with_other_amounts(session, hot)})


def _all_days(session: Session, hot: str, there: Set[str]) -> list[int]:
    """Return every day that either side has a row of; `there` are the tables of the lake that have any."""
    each = [
        f"SELECT {column} // {DAY_US} * {DAY_US} AS day FROM {place}.{table}"
        for table, column in {**DATED, **AMOUNTS}.items()
        for place in (hot, "lake.books")
        if column is not None and (place == hot or table in there)
    ]
    return [day for (day,) in session.rows(f"SELECT DISTINCT day FROM ({' UNION '.join(each)}) ORDER BY day")]
