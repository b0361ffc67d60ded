"""One cursor on the store: statements, queries and bulk appends, foreign errors renamed.

Where there is no pandas, Python knows it at once: DuckDB asks for it twice for every parameter of a statement, and each
time Python looks through all of its path: a statement with ten parameters took 2.0 ms instead of 0.5. It asks for
dateutil as well, which pandas would bring.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import duckdb

from agent.log_format import without_secrets
from collector.errors import StoreError

if TYPE_CHECKING:
    import pyarrow  # readers never need it, and it brings numpy: a quarter of what starting a command takes


def literal(text: str | Path) -> str:
    """Return a text as SQL writes it, quotes included."""
    return "'" + str(text).replace("'", "''") + "'"


_NAMES = ("pandas", "dateutil")


class _Absent(MetaPathFinder):
    """Asked before all who look at disks."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def spare_the_search() -> None:
    """Look for each of them once; what is not installed, nobody in this process looks for again."""
    if any(isinstance(finder, _Absent) for finder in sys.meta_path):
        return
    absent = frozenset(name for name in _NAMES if name not in sys.modules and find_spec(name) is None)
    if absent:
        sys.meta_path.insert(0, _Absent(absent))


_UNREACHABLE = re.compile(r'Unable to connect to Postgres at "(?:[^"]*)": (.*)')


def _refused(what: str, error: duckdb.Error) -> StoreError:
    """Return our error for DuckDB's, which repeats the address that it was given, the password within it."""
    text = without_secrets(str(error))
    if away := _UNREACHABLE.search(text):
        return StoreError(f"the PostgreSQL database of the lake's catalogue does not answer: {away[1].strip()}")
    return StoreError(f"{what}: {text}")


_FUNCTIONS = "system.main,"
_ABSENT = "does not exist"  # in DuckDB's words, of a table and of a database
_WORD = re.compile(r"\w+")


@lru_cache(maxsize=1_000)
def _words(sql: str) -> frozenset[str]:
    return frozenset(_WORD.findall(sql.lower()))


class Session:
    """One cursor on the store: use it in one thread, close it when done. `committed` is called after a transaction."""

    def __init__(
        self, cursor: duckdb.DuckDBPyConnection, committed: Callable[["Session"], None] = lambda _: None
    ) -> None:
        self._cursor = cursor
        self._committed = committed
        self._views: dict[str, str] = {}
        self._unmade: set[str] = set()  # of these views
        self.found: dict[object, object] | None = None  # of the state that the transaction under way sees
        self.without_rows: set[str] = set()  # tables that are known to have none

    def stand_before(self, views: Mapping[str, str]) -> None:
        """Let temporary views stand before the tables of their names, each made when a statement first names it.

        Most sessions name a few tables of many, and to make a view takes as long as to plan what is in it.
        """
        self._views |= views
        self._unmade |= views.keys()

    @property
    def has_views_before(self) -> bool:
        """Whether views stand before any of its tables."""
        return bool(self._views)

    def _make_named(self, sql: str) -> None:
        if self._unmade:
            for name in sorted(_words(sql) & self._unmade):
                self._cursor.execute(self._views[name])
                self._unmade.discard(name)

    def _run(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> duckdb.DuckDBPyConnection:
        self._make_named(sql)
        return self._cursor.execute(sql, parameters)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the cursor back."""
        self._cursor.close()

    @property
    def search_path(self) -> str:
        """Where tables are looked for, in order, as search() was told."""
        return str(self.row("SELECT current_setting('search_path')")[0]).removeprefix(_FUNCTIONS)

    def search(self, path: str) -> None:
        """Look for tables in these places; DuckDB's own functions come first, or a lake is asked for each of them."""
        self.execute(f"SET search_path = {literal(_FUNCTIONS + path)}")

    def another(self) -> "Session":
        """Return a cursor on the same store that takes no part in this one's transaction."""
        return Session(self._cursor.cursor())

    def execute(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> None:
        """Run one statement for its effect."""
        try:
            self._run(sql, parameters)
        except duckdb.Error as error:
            raise _refused("the store refused a statement", error) from error

    def changed(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> int:
        """Run one statement for its effect and return how many rows it has written or taken away."""
        try:
            counted = self._run(sql, parameters).fetchall()
        except duckdb.Error as error:
            raise _refused("the store refused a statement", error) from error
        return int(counted[0][0]) if counted else 0

    def rows(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> list[tuple[Any, ...]]:
        """Run one query and return all its rows; for results that are small by design."""
        try:
            return self._run(sql, parameters).fetchall()
        except duckdb.Error as error:
            raise _refused("the store refused a query", error) from error

    def rows_if_there(
        self, sql: str, parameters: Sequence[object] | dict[str, object] = ()
    ) -> list[tuple[Any, ...]] | None:
        """Return what rows() does; None where something that the query names is not there, as in an older store.

        DuckDB's list of tables would ask every attached catalogue, and count the rows of each table of a lake.
        """
        try:
            return self.rows(sql, parameters)
        except StoreError as error:
            if _ABSENT in str(error):
                return None
            raise

    def row(self, sql: str, parameters: Sequence[object] | dict[str, object] = ()) -> tuple[Any, ...]:
        """Run one query that always has a first row, and return it."""
        return self.rows(sql, parameters)[0]

    def arrow(self, sql: str, arriving: "pyarrow.Table | None" = None) -> "pyarrow.Table":  # noqa: ARG002
        """Run one query and return its rows as an Arrow table; DuckDB finds the table `arriving` by its name here."""
        try:
            self._make_named(sql)
            return self._cursor.execute(sql).to_arrow_table()
        except duckdb.Error as error:
            raise _refused("the store refused a query", error) from error

    def insert(self, table: str, rows: "pyarrow.Table", *, replace: bool = False) -> None:
        """Append an Arrow table by column name; columns that it lacks become null.

        With `replace`, a row takes the place of the one that has its key.
        """
        self.without_rows.discard(table)
        arriving = rows  # DuckDB finds it by its name here. As a registered view it would be held until the commit.
        columns = ", ".join(arriving.column_names)
        insert = f"INSERT {'OR REPLACE ' if replace else ''}INTO {table} ({columns})"
        try:
            self._cursor.execute(f"{insert} SELECT {columns} FROM arriving")
        except duckdb.Error as error:
            raise _refused(f"{table} refused {rows.num_rows} rows", error) from error

    def load(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, replace: bool = False
    ) -> None:
        """Append Python rows in bulk; for what was judged, never for samples."""
        if rows:
            import pyarrow

            values = zip(*rows, strict=True)
            self.insert(table, pyarrow.table(dict(zip(columns, map(list, values), strict=True))), replace=replace)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything inside together, or nothing of it."""
        self.execute("BEGIN")
        self.found = {}
        try:
            yield
        except BaseException:
            with suppress(
                duckdb.Error
            ):  # a broken store has nothing left to roll back; the first error is the one told
                self._cursor.rollback()
            self._unmade |= self._views.keys()  # those that were made in it are gone; the others are made again
            raise
        finally:
            self.found = None
        self.execute("COMMIT")
        self._committed(self)


class OpenStore(Protocol):
    """An open store, for what is done with one below it: collector/store/database.py has it whole."""

    @property
    def path(self) -> Path | None:
        """Its file; None in memory."""

    @property
    def lake(self) -> object | None:
        """Where its lake is; None without one."""

    @property
    def hot(self) -> str | None:
        """Where its own tables are; None for a reader of the lake alone."""

    @property
    def turn(self) -> AbstractContextManager[object]:
        """Whose turn it is to write to the lake."""

    def session(self) -> Session:
        """Return a new cursor that finds each table where it is."""

    def hot_session(self) -> Session:
        """Return a new cursor on its own tables."""
