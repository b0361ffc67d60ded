"""A session that sees the runs of one part of the ledger, and nothing else.

It has temporary views that stand before the tables of the same names, so that every query of every reading sees nothing
but those runs. What may not be seen is thereby not summed either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from analyzer.queries.booked import COLUMNS, booked
from collector.store.session import literal

if TYPE_CHECKING:
    from analyzer.reports.ledger_filter import LedgerFilter
    from collector.store.session import Session

# Facts of the site that belong to no team: where hosts stand, which hours there are, which invoice matched.
_PUBLIC = frozenset(
    {"inventory", "closed_nodes", "closed_rates", "ledger_hours", "amount_hours", "analysis", "invoice_matches"}
)
_RUN_COLUMNS = {
    "not_evaluated": "subject",
    "amount_corrections": "subject",
}  # others name their run `run_id`, or are of none


@contextmanager
def confined(whole: "Session", part: "LedgerFilter") -> "Iterator[Session]":
    """Yield another session on the same store, in one snapshot, that sees this part alone."""
    (path,) = whole.row("SELECT current_setting('search_path')")
    with whole.another() as own:
        own.execute(f"SET search_path = {literal(path)}")
        confine(own, part)
        with own.transaction():
            yield own


def confine(session: "Session", part: "LedgerFilter") -> None:
    """Let a session see the runs of this part alone, whatever it asks; a table that names no run is empty to it.

    Once and for all: views that were made anew would stand before the tables and not before the first ones, and show
    again what those hid.
    """
    if session.has_views_before:
        raise AssertionError("BUG: a session is confined once: a second time could only show it more")
    if not part:
        return
    tables = _tables(session)
    own = f"SELECT r.run_id FROM {tables['runs'][0]} r WHERE {part.condition}"
    views = {}
    for table, (place, has_run) in tables.items():
        if table not in _PUBLIC:
            column = _RUN_COLUMNS.get(table) or ("run_id" if has_run else None)
            where = f"{column} IN ({own})" if column else "false"
            views[table] = f"SELECT * FROM {place} WHERE {where}"
    views |= _of_closed({name: place for name, (place, _) in tables.items()}, part)
    session.stand_before({name: f"CREATE OR REPLACE TEMP VIEW {_quoted(name)} AS {sql}" for name, sql in views.items()})


def _of_closed(places: "dict[str, str]", part: "LedgerFilter") -> Iterator[tuple[str, str]]:
    """Yield the views of what closes with a month: of a closed hour is seen what was this part's then.

    Charges are by team: of other parts no hour counts as closed, and they are told as the rates are now.
    """
    ledger = {name: place for name, place in places.items() if name in ("ledger", "adjustments", "closed_runs", "runs")}
    for table in ("ledger", "adjustments"):
        chosen = f"SELECT r.* EXCLUDE (owner, {', '.join(COLUMNS)}) FROM {booked(table, ledger)} r"
        yield table, f"{chosen} WHERE {part.condition}"
    then = f"SELECT c.*, o.owner FROM {places['closed_runs']} c LEFT JOIN {places['runs']} o ON o.run_id = c.run_id"
    for table in ("runs", "closed_runs"):
        seen = f"SELECT r.run_id FROM {places['runs']} r WHERE {part.condition}"
        closed = f"SELECT r.run_id FROM ({then}) r WHERE {part.condition}"
        yield table, f"SELECT * FROM {places[table]} WHERE run_id IN ({seen} UNION {closed})"
    for table in ("closed_hours", "closed_charges", "charge_corrections"):
        where = "true" if table == "closed_hours" else part.condition
        yield table, f"SELECT r.* FROM {places[table]} r WHERE {where if part.is_of_teams else 'false'}"


def _tables(session: "Session") -> dict[str, tuple[str, bool]]:
    """Return of every table that an unqualified name leads to where it is, and whether its rows name a run."""
    path, home = session.row("SELECT current_setting('search_path'), current_database()")
    order = [place.strip().replace('"', "") for place in path.split(",") if place.strip()] or [f"{home}.main"]
    rows = session.rows(
        """
        SELECT database_name, schema_name, table_name, bool_or(column_name = 'run_id') FROM duckdb_columns()
        WHERE NOT internal AND database_name <> 'temp' GROUP BY ALL ORDER BY ALL
        """
    )
    found: dict[str, tuple[str, bool]] = {}
    for wanted in order:
        for database, schema, table, has_run in rows:
            if f"{database}.{schema}".replace('"', "") == wanted:
                found.setdefault(table, (f"{_quoted(database)}.{_quoted(schema)}.{_quoted(table)}", has_run))
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
