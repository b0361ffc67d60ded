"""Analyzers with a hot file each over one lake: each can begin, book, die, and come back."""

import shutil
from functools import cached_property
from pathlib import Path

from analyzer.analysis import analyze
from analyzer.settings.settings import Settings
from collector.errors import TakenError
from collector.store.books import AMOUNTS, DATED, mirror, mirror_findings
from collector.store.database import Store
from collector.store.lake import LakeSettings, tables_with_rows
from tests.analyzer.ledger.fleet import DAY, MONDAY, Fleet

NOW = MONDAY + DAY
# When a pass was made is told by these, and differs where passes do.
TOLD_OF_PASSES = {
    "analysis": "analysed_at",
    "adjustments": "recorded_at",
    "closed_hours": "closed_at",
    "charge_corrections": "recorded_at",
    "amount_hours": "booked_batch",
    "amount_corrections": "recorded_at",
}

Books = dict[str, list[tuple[object, ...]]]


class Killed(BaseException):
    """What ends a pass in the middle: nothing catches it."""


class Analyzer:
    """One analyzer. What it has not booked when it dies is in its hot file."""

    def __init__(self, name: str, folder: Path, lake: LakeSettings) -> None:
        self._file = folder / name / "hot.duckdb"
        self._file.parent.mkdir(exist_ok=True)
        self._lake = lake
        self.name = name
        self.store = self._opened()

    def begin(self, now: int = NOW, *, dies_after: int | None = None, settings: Settings | None = None) -> None:
        """Make a pass and book nothing of it yet; or die after so many chunks."""

        def progress(done: int, _: int) -> None:
            if done == dies_after:
                raise Killed

        analyze(self.store, settings or Settings(), now_us=now, progress=progress)

    def book(self) -> bool:
        """Book what the last pass made; return whether it could."""
        try:
            mirror(self.store, self.name)
        except TakenError:
            return False
        return True

    def whole(self, now: int = NOW) -> bool:
        """Make a whole pass."""
        self.begin(now)
        return self.book()

    def killed(self, now: int = NOW, after: int = 1) -> None:
        """Die in the middle of a pass, and come back with the hot file as it was then."""
        try:
            self.begin(now, dies_after=after)
        except Killed:
            self.reopen()

    def reopen(self) -> None:
        """Stop, and start again."""
        self.store.close()
        self.store = self._opened()

    def lose_all(self) -> None:
        """Stop, and start again on an empty disk."""
        self.store.close()
        shutil.rmtree(self._file.parent)
        self._file.parent.mkdir()
        self.store = self._opened()

    def said(self) -> None:
        """Bring people's words to the other side."""
        mirror_findings(self.store)

    def close(self) -> None:
        """Go away."""
        self.store.close()

    def _opened(self) -> Store:
        return Store.open(self._file, lake=self._lake, memory_limit="500MB")

    def books(self, *tables: str) -> Books:
        """Return what the lake's books say, of these tables or of all."""
        return books(self.store, "lake.books", *tables)

    def own_books(self, *tables: str) -> Books:
        """Return what this hot file says, of these tables or of all."""
        assert self.store.hot is not None
        return books(self.store, self.store.hot, *tables)


def books(store: Store, place: str, *tables: str) -> Books:
    """Return tables of the books, in order, without what tells of single passes; without names, all of them."""
    tables = tables or (*DATED, *AMOUNTS, "finding_book")
    with store.session() as session:
        # Of a table of a lake into which nobody ever wrote there is nothing to plan, which takes 10 ms.
        there = tables_with_rows(session, "books") if place == "lake.books" else set(tables)
        return {
            table: session.rows(f"SELECT {_told_of(table)} FROM {place}.{table} ORDER BY ALL") if table in there else []
            for table in tables
        }


def _told_of(table: str) -> str:
    return f"* EXCLUDE ({TOLD_OF_PASSES[table]})" if table in TOLD_OF_PASSES else "*"


class Site:
    """A lake with two analyzers. `fleet` puts rows into the lake, as sealing does."""

    def __init__(self, folder: Path, lake: LakeSettings) -> None:
        folder.mkdir(exist_ok=True)
        self.fleet = Fleet(Store.open(folder / "collector.duckdb", lake=lake, memory_limit="500MB"))
        self._folder, self._lake = folder, lake

    @cached_property
    def a(self) -> Analyzer:
        """The first."""
        return Analyzer("a", self._folder, self._lake)

    @cached_property
    def b(self) -> Analyzer:
        """The second, which comes when it is first asked for."""
        return Analyzer("b", self._folder, self._lake)

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        for name in {"a", "b"} & vars(self).keys():
            vars(self)[name].close()
        self.fleet.store.close()


def in_folder(folder: Path) -> LakeSettings:
    """Return a lake in a folder, its catalogue in SQLite."""
    return LakeSettings(f"sqlite:{folder / 'lake' / 'catalogue.sqlite'}", str(folder / "lake" / "data"))


def same(found: Books, wanted: Books) -> bool:
    """Whether two books say the same; where not, in which tables is shown."""
    off = {table: (len(found[table]), len(rows)) for table, rows in wanted.items() if found[table] != rows}
    assert off == {}, off
    return True
