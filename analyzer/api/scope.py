"""What one who asks may see: everything, or the GPU time of some teams alone.

A confined session has temporary views that stand before the tables of the same names, so that every query of every
reading sees nothing but those teams' runs. What may not be seen is thereby not summed either.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyzer.api.faults import PeopleError
from analyzer.dimensions import PEOPLE
from collector.access.roles import Right
from collector.store.literal import literal

if TYPE_CHECKING:
    from analyzer.findings import Finding
    from analyzer.notices.notice import Notice
    from analyzer.placement.life.prediction import Prediction
    from analyzer.placement.recommendation import Recommendation
    from collector.store.session import Session

# Facts of the site that belong to no team: where hosts stand, which hours there are, which invoice matched.
_PUBLIC = frozenset({"inventory", "ledger_hours", "analysis", "invoice_matches"})
_RUN_COLUMNS = {"not_evaluated": "subject"}  # others name their run `run_id`, or are of none


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks: the teams that may be seen, None is all of them and what nobody held; and whether they judge.

    Whoever judges findings and decides on recommendations sees people by name, too.
    """

    teams: tuple[str, ...] | None = None
    judges: bool = True

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> "Scope":
        """Return the scope of an ASGI request, which the gate has written there; without a gate it is all."""
        principal = scope.get("principal")
        if principal is None:
            return cls()
        return cls(None if principal.teams is None else tuple(sorted(principal.teams)), principal.may(Right.JUDGE))

    def check(self, dimensions: Iterable[str]) -> None:
        """See that none of these dimensions names people to who may not know them.

        Raises:
            PeopleError: one does.
        """
        if not self.judges and PEOPLE & set(dimensions):
            raise PeopleError("who spent it is shown to keys of the roles owner and admin; ask by team")

    def sees(self, item: "Finding | Notice | Prediction | Recommendation") -> bool:
        """Return whether a finding, notice or recommendation may be shown; what has no team is the site's alone."""
        return self.teams is None or item.team in self.teams


def confine(session: "Session", scope: Scope) -> None:
    """Let a session see the runs of these teams alone, whatever it asks; a table that names no run is empty to it."""
    if scope.teams is None:
        return
    names = ", ".join(map(literal, scope.teams))
    tables = _tables(session)
    own = f"SELECT run_id FROM {tables['runs'][0]} WHERE team IN ({names})" if names else "SELECT NULL WHERE false"
    views = []
    for table, (place, has_run) in tables.items():
        if table not in _PUBLIC:
            column = _RUN_COLUMNS.get(table) or ("run_id" if has_run else None)
            where = f"{column} IN ({own})" if column else "false"
            views.append(f"CREATE OR REPLACE TEMP VIEW {_quoted(table)} AS SELECT * FROM {place} WHERE {where}")
    session.execute("; ".join(views))


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
