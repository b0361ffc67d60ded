"""The books: the ledger and all that the analyzer writes, mirrored into the lake for readers of other processes.

The analyzer writes them into its hot file, which no other process can open. After a pass, the days that it made anew
are replaced in `lake.books`, in one transaction of the lake: a reader sees a whole day as it was, or as it is.
"""

from typing import TYPE_CHECKING

from collector.store.lake import delete
from collector.store.lake_schema import made
from collector.store.missing import add_missing, columns_there

if TYPE_CHECKING:
    from collector.store.database import Store
    from collector.store.session import Session

# Each table with the column that says which day a row belongs to; None where the whole table is replaced.
DATED: dict[str, str | None] = {
    "ledger": "hour",
    "ledger_hours": "hour",
    "adjustments": "hour",
    "not_evaluated": "hour",
    "run_activity": "hour",
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
}
# Small tables that are made whole by each pass: replaced where they differ.
WHOLE = ("finding_book",)
# What people said, and what the rules were, by its key: rows are only ever added, so that neither side loses what the
# other has.
SAID = {"finding_judgements": "judgement_id", "finding_mutes": "mute_id", "rule_versions": "rules_version"}
_MIRRORED = (*DATED, *WHOLE, *SAID)
_DAY_US = 86_400_000_000
_DIFFERENT = """
SELECT DISTINCT hour // {day_us} * {day_us} AS day
FROM {hot}.ledger_hours h FULL JOIN lake.books.ledger_hours b USING (hour)
WHERE (h.status, h.input_digest) IS DISTINCT FROM (b.status, b.input_digest) ORDER BY day
"""


def make_tables(session: "Session") -> None:
    """Make in the lake what is missing of the hot file's books: tables and columns, without keys.

    Raises:
        StoreError: the catalogue refuses.
    """
    made(session, _add_missing)


def _add_missing(session: "Session") -> None:
    session.execute("CREATE SCHEMA IF NOT EXISTS lake.books")
    add_missing(session, "lake.books", _columns(session), columns_there(session, "lake", "books"))


def mirror(store: "Store") -> int:
    """Bring the lake's books up to the hot file's, and return how many UTC days were replaced.

    Which days differ is seen from their hours' digests, so that a pass that was cut off is made good by the next.

    Raises:
        StoreError: the lake refused; nothing of it was changed.
    """
    if store.lake is None or store.hot is None:
        return 0
    with store.turn, store.session() as session, session.transaction():
        days = [day for (day,) in session.rows(_DIFFERENT.format(hot=store.hot, day_us=_DAY_US))]
        for table, dated in DATED.items() if days else ():
            where = " OR ".join(f"{dated} BETWEEN {day} AND {day + _DAY_US - 1}" for day in days) if dated else "true"
            delete(session, f"DELETE FROM lake.books.{table} WHERE {where}")
            session.execute(f"INSERT INTO lake.books.{table} BY NAME SELECT * FROM {store.hot}.{table} WHERE {where}")
    mirror_findings(store)
    return len(days)


def mirror_findings(store: "Store") -> None:
    """Bring what is kept of findings to the other side: the book to the lake, what people said either way.

    Raises:
        StoreError: the lake refused; nothing of it was changed.
    """
    if store.lake is None or store.hot is None:
        return
    with store.hot_session() as session:
        columns = _columns(session)
    with store.turn, store.session() as session:
        with session.transaction():
            for table in WHOLE:
                names = ", ".join(column.split()[0] for column in columns[table])
                said = f"SELECT (count(*), bit_xor(hash({names}))) FROM {{}}.{table}"
                if session.row(said.format(store.hot)) != session.row(said.format("lake.books")):
                    delete(session, f"DELETE FROM lake.books.{table}")
                    session.execute(f"INSERT INTO lake.books.{table} BY NAME SELECT * FROM {store.hot}.{table}")
            _add_said(session, store.hot, "lake.books")
        with session.transaction():
            _add_said(session, "lake.books", store.hot)


def _add_said(session: "Session", source: str, target: str) -> None:
    for table, key in SAID.items():
        session.execute(
            f"INSERT INTO {target}.{table} BY NAME SELECT * FROM {source}.{table} "
            f"WHERE {key} NOT IN (SELECT {key} FROM {target}.{table})"
        )


def _columns(session: "Session") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for table, column, kind in session.rows(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE database_name = current_database() "
        "AND schema_name = 'main' AND list_contains(?, table_name) ORDER BY table_name, column_index",
        [list(_MIRRORED)],
    ):
        found.setdefault(table, []).append(f"{column} {kind}")
    return found
