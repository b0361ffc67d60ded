"""SQL of all rooms: its files, and the relations that say whose a row is and where its host stood.

`runs` says what is known of a run now. A reading of money by team, cost centre, project, stage, queue or model takes
these from here, so that nothing that is edited later changes a final month.

A host is where the last word by the end of an hour puts it, so that one that moves changes no hour before. Before the
first word it is where that puts it.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session

BOOKED_COLUMNS = ("name", "team", "cost_centre", "project", "queue", "stage", "model")
_MOVED = ("team", "cost_centre", "project")  # what corrections move time between
_OF_CLOSED = re.compile(r"\{booked (\w+)\}")


def booked(table: str, places: "dict[str, str] | None" = None) -> str:
    """Return the relation of a table with `hour` and `run_id`, and beside its columns those of its runs, and `owner`.

    A row that nobody held has null in them. Of `adjustments` a row that moves time is whose it says. `places` are where
    tables are, where not by their names.
    """
    at = places or {}
    closed = [f"CASE WHEN c.run_id IS NULL THEN r.{column} ELSE c.{column} END" for column in BOOKED_COLUMNS]
    if table == "adjustments":
        closed = [
            f"CASE WHEN l.is_moved THEN l.moved_{column} ELSE {value} END" if column in _MOVED else value
            for column, value in zip(BOOKED_COLUMNS, closed, strict=True)
        ]
    told = ", ".join(f"{value} AS {column}" for column, value in zip(BOOKED_COLUMNS, closed, strict=True))
    return (
        f"(SELECT l.*, {told}, r.owner FROM {at.get(table, table)} l "
        f"LEFT JOIN {at.get('closed_runs', 'closed_runs')} c ON c.hour = l.hour AND c.run_id = l.run_id "
        f"LEFT JOIN {at.get('runs', 'runs')} r ON r.run_id = l.run_id)"
    )


def _with_booked(text: str) -> str:
    """Return SQL with {booked ledger} and the like replaced by these relations."""
    return _OF_CLOSED.sub(lambda found: booked(found[1]), text)


PLACED_COLUMNS = ("node_group", "rack", "block", "zone", "region", "cpu_cores", "host_memory_bytes")
_LAST_US = 3_599_999_999  # of an hour
_FOREVER = 2**62
_LATER = "(PARTITION BY node ORDER BY started_at ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
_BY_NODE = "(PARTITION BY node ORDER BY started_at)"
_PLACE = f"({', '.join(PLACED_COLUMNS)})"
_PLACED = re.compile(r"\{placed (\w+)\}")
_STOOD = re.compile(r"\{stood (\S+) ([^}]+)\}")


def _each(text: str) -> str:
    return ", ".join(text.format(column) for column in PLACED_COLUMNS)


_SAID = _each("arg_max({0}, batch) AS {0}")
_KNOWN = _each(
    f"coalesce(last_value({{0}} IGNORE NULLS) OVER {_BY_NODE}, first_value({{0}} IGNORE NULLS) OVER {_LATER}) AS {{0}}"
)
# Of each host the spans of time in which all of its place was the same. An agent that knows no rack does not take back
# what labels said.
_DATED = f"""(
    WITH said AS (SELECT node, started_at, {_SAID} FROM inventory GROUP BY node, started_at),
    known AS (SELECT node, started_at, {_KNOWN} FROM said),
    turned AS (
        SELECT * FROM known
        QUALIFY row_number() OVER {_BY_NODE} = 1 OR {_PLACE} IS DISTINCT FROM lag({_PLACE}) OVER {_BY_NODE}
    )
    SELECT node, CASE WHEN row_number() OVER {_BY_NODE} = 1 THEN 0 ELSE started_at END AS since,
        coalesce(lead(started_at) OVER {_BY_NODE}, {_FOREVER}) AS until, {_each("{0}")} FROM turned
)"""


def placed(alias: str) -> str:
    """Return the joins that put a relation with `hour` and `node` where its hosts stood: `h`, with PLACED_COLUMNS."""
    return (
        f"LEFT JOIN {_DATED} dated ON dated.node = {alias}.node AND dated.since <= {alias}.hour + {_LAST_US} "
        f"AND dated.until > {alias}.hour + {_LAST_US} "
        f"LEFT JOIN closed_nodes shut ON shut.hour = {alias}.hour AND shut.node = {alias}.node "
        "LEFT JOIN LATERAL (SELECT "
        f"{_each('CASE WHEN shut.node IS NULL THEN dated.{0} ELSE shut.{0} END AS {0}')}) h ON true"
    )


def stood(node: str, hour: str) -> str:
    """Return the join that puts a node in an hour where it was told to stand: as `h`, by host_spans of fleet.sql."""
    end = f"{hour} + {_LAST_US}"
    return f"LEFT JOIN host_spans h ON h.node = {node} AND h.since <= {end} AND h.until > {end}"


def _with_placed(text: str) -> str:
    """Return SQL with {placed l} and {stood l.node l.hour} replaced by these joins, {host spans} by that table."""
    text = _STOOD.sub(lambda found: stood(found[1], found[2]), text.replace("{host spans}", _DATED))
    return _PLACED.sub(lambda found: placed(found[1]), text)


_ONLY_WITH = "-- only with "
_MAKES = re.compile(r"^(CREATE OR REPLACE TEMP TABLE|INSERT (?:OR REPLACE )?INTO) (\w+)", re.MULTILINE)
_columns_of: dict[str, str] = {}  # of a statement that makes a table: its columns with their types
Texts = tuple[tuple[str, str], ...]  # name and SQL, as a key of the cache
ROOMS = Path(__file__).parent.parent
PARAMETER = re.compile(r"\$([a-z_]+)")


@cache
def statements(file: str, texts: Texts = ()) -> tuple[str, ...]:
    """Return the statements of a file, without semicolons and comments but that of needs().

    room/name.sql is analyzer/room/sql/name.sql.

    {booked ledger} in them is the ledger with whose its rows are (booked.py), {placed l} joins
    where the hosts of `l` stood (placed.py); `texts` are put where each stands by its {name}.
    """
    room, _, name = file.partition("/")
    text = (ROOMS / room / "sql" / name).read_text()
    for placeholder, part in texts:
        text = text.replace(f"{{{placeholder}}}", part)
    text = _with_placed(_with_booked(text))
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--") or line.startswith(_ONLY_WITH)]
    return tuple(part.strip().rstrip(";") for part in "\n".join(lines).split(";\n") if part.strip())


@cache
def needs(statement: str) -> tuple[frozenset[str], ...]:
    """Return the tables without which a statement gives nothing, as its first line says; of each set one is enough.

    `-- only with progress, holds|seen` is said of what joins `progress` to all that `holds` and `seen` have.
    """
    first, _, _ = statement.partition("\n")
    if not first.startswith(_ONLY_WITH):
        return ()
    return tuple(frozenset(names.split("|")) for names in first.removeprefix(_ONLY_WITH).split(", "))


def run(session: "Session", file: str, **parameters: object) -> None:
    """Run every statement of one file in order. Raises as run_with()."""
    run_with(session, file, (), parameters)


def run_with(session: "Session", file: str, texts: Texts, parameters: Mapping[str, object]) -> None:
    """Run every statement of one file in order, with the texts that statements() puts into it.

    To plan a statement takes longer than to run it over few rows, and most sites have no services, no words of runs or
    no flows: what can give nothing is passed over. A parameter that a statement names and nobody gives is our own
    mistake and raises KeyError.
    """
    for statement in statements(file, texts):
        names = set(PARAMETER.findall(statement))
        given = {name: parameters[name] for name in names}
        if any(tables <= session.without_rows for tables in needs(statement)):
            pass_over(session, statement, given)
        else:
            _run(session, statement, given)


@cache
def _made_by(statement: str) -> tuple[str, str]:
    """Return how a statement fills which table: the first words, and its name; empty where it fills none."""
    found = _MAKES.search(statement)
    return (found[1], found[2]) if found else ("", "")


def _run(session: "Session", statement: str, given: dict[str, object]) -> None:
    count = session.changed(statement, given)
    how, table = _made_by(statement)
    if count:
        session.without_rows.discard(table)
    elif how.startswith("CREATE"):
        session.without_rows.add(table)


def pass_over(session: "Session", statement: str, given: dict[str, object]) -> None:
    """Leave out a statement that gives nothing; the table that it would make is made of its columns alone.

    Which these are is asked once, of the table that the statement itself has made.
    """
    how, table = _made_by(statement)
    if not how.startswith("CREATE"):
        return
    if columns := _columns_of.get(statement):
        session.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({columns})")
        session.without_rows.add(table)
    else:
        _run(session, statement, given)
        told = session.rows(f"DESCRIBE {table}")
        _columns_of[statement] = ", ".join(f'"{name}" {kind}' for name, kind, *_ in told)
