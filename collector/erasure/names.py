"""Where a name can stand in a store, and how it is found and replaced there: as a whole word."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.tables import TABLES
from collector.errors import ConfigError

if TYPE_CHECKING:
    from collector.store.session import Session

# Of the contract: what holds names of people, and the ids that may bear one. Of the books: what is made from those, and
# who said what of a finding.
COLUMNS = frozenset(
    column.name for table in TABLES.values() for column in table.columns if column.sensitivity != "none"
) | {"caused_by", "subject", "counts", "verdict", "because", "who", "model_first", "model_last", "moved_project"}
_FREE_TEXT = ("quarantine", "content")  # rows that were refused: evidence and no data, so that they simply go
ERASED = "erased-"  # how a pseudonym begins that nobody chose
_SHORTEST, _LONGEST = 2, 200


@dataclass(frozen=True, slots=True)
class Replacement:
    """A name, and what stands in its place."""

    name: str
    pseudonym: str

    def __post_init__(self) -> None:
        if not _SHORTEST <= len(self.name) <= _LONGEST or not self.name.isprintable() or "\\E" in self.name:
            raise ConfigError(f"a name to erase has {_SHORTEST} to {_LONGEST} printable characters")
        if not re.fullmatch(r"[a-z0-9-]{4,40}", self.pseudonym):
            raise ConfigError("a pseudonym has 4 to 40 small letters, digits and dashes")

    @property
    def looking(self) -> dict[str, object]:
        """What a statement needs to find the name."""
        between = r"[^\p{L}\p{N}]"
        return {"name": self.name, "pattern": rf"(^|{between})\Q{self.name}\E({between}|$)"}

    @property
    def changing(self) -> dict[str, object]:
        """What a statement needs to put the pseudonym in its place."""
        return self.looking | {"instead": rf"\1{self.pseudonym}\2"}


@dataclass(frozen=True, slots=True)
class NameColumns:
    """One table and those of its columns in which a name can stand."""

    table: str  # with its database and schema, as SQL has it
    columns: tuple[str, ...]
    goes: bool = False  # whether a row that holds the name is deleted

    @property
    def holds(self) -> str:
        """The condition that a row holds the name; it needs `looking`."""
        return " OR ".join(f"(contains({c}, $name) AND regexp_matches({c}, $pattern))" for c in self.columns)

    def change(self) -> str:
        """Return the statement that takes the name out; it needs `changing`, or `looking` where rows go."""
        if self.goes:
            return f"DELETE FROM {self.table} WHERE {self.holds}"
        # Twice: of two names with one character between, the first match has taken that character.
        once = "regexp_replace({0}, $pattern, $instead, 'g')"
        sets = ", ".join(f"{c} = {once.format(once.format(c))}" for c in self.columns)
        return f"UPDATE {self.table} SET {sets} WHERE {self.holds}"


def places(session: "Session", database: str) -> list[NameColumns]:
    """Return every place of an attached database."""
    found: dict[tuple[str, str], list[str]] = {}
    for schema, table, column in session.rows(
        "SELECT schema_name, table_name, column_name FROM duckdb_columns() WHERE database_name = ? "
        "AND data_type = 'VARCHAR' ORDER BY ALL",
        [database],
    ):
        if column in COLUMNS or (table, column) == _FREE_TEXT:
            found.setdefault((schema, table), []).append(column)
    quoted = '"' + database.replace('"', '""') + '"'
    return [
        NameColumns(f"{quoted}.{schema}.{table}", tuple(columns), table == _FREE_TEXT[0])
        for (schema, table), columns in found.items()
    ]
