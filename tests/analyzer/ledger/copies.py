"""Fleets that are made and analysed once for several tests, as a pass takes longer than all else that a test does."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import ParamSpec

import pyarrow
import pytest

from tests.analyzer.ledger.fleet import Beside, Fleet

_IN_EVERY_STORE = "migrations"

Parameters = ParamSpec("Parameters")


def made_once(make: Callable[Parameters, Fleet]) -> Callable[Parameters, Fleet]:
    """Return what gives each caller a fleet of its own with all that `make` put into one; arguments can be hashed."""
    made: dict[object, tuple[int, dict[str, str], dict[str, pyarrow.Table]]] = {}

    @wraps(make)
    def copy(*args: Parameters.args, **named: Parameters.kwargs) -> Fleet:
        asked = (args, *named.items())
        if asked not in made:
            made[asked] = _contents(make(*args, **named))
        batches, tables, rows = made[asked]
        fleet = Fleet(batches=batches)
        with fleet.store.session() as session, session.transaction():
            there = {name for (name,) in session.rows("SELECT table_name FROM duckdb_tables()")}
            for table in tables.keys() - there:
                session.execute(tables[table])
            for table, content in rows.items():
                session.insert(table, content)
        return fleet

    return copy


def _contents(fleet: Fleet) -> tuple[int, dict[str, str], dict[str, pyarrow.Table]]:
    """Close the fleet's store; return the number of its batches, what makes its tables, and the rows of the filled."""
    with fleet.store as store, store.session() as session:
        told = session.rows("SELECT table_name, sql, estimated_size FROM duckdb_tables() WHERE NOT temporary")
        filled = [name for name, _, size in told if size and name != _IN_EVERY_STORE]
        rows = {name: session.arrow(f"SELECT * FROM {name}") for name in filled}
    return fleet.batches, {name: sql for name, sql, _ in told}, rows


class OnePass:
    """Judges the fleets of many tests, side by side in one store, by one pass: over few rows it takes as long.

    A test says what happened in the fleet that it is given, yields, and finds it judged.
    """

    def __init__(self, analyze: Callable[[Fleet, Sequence[object]], object] = lambda store, _: store.analyze()) -> None:
        """Begin without tests; each that is decorated joins them. `analyze` gets what they yield, too."""
        self._analyze = analyze
        self._told: list[tuple[Callable[..., Iterator[object]], Sequence[object]]] = []
        self._judged: dict[int, Iterator[object]] = {}

    def __call__(self, test: Callable[[Fleet], Iterator[object]]) -> Callable[..., None]:
        """Let a test take part."""
        number = self._join(test, ())
        return _named_as(test, lambda: self._go_on(number))

    def each(self, *cases: Sequence[object]) -> Callable[..., Callable[..., None]]:
        """Let a test take part once with each of these arguments, a fleet for each."""

        def decorate(test: Callable[..., Iterator[object]]) -> Callable[..., None]:
            numbers = [self._join(test, case) for case in cases]
            ids = ["-".join(str(value) for value in case) for case in cases]

            def run(number: int) -> None:
                self._go_on(number)

            marked: Callable[..., None] = pytest.mark.parametrize("number", numbers, ids=ids)(_named_as(test, run))
            return marked

        return decorate

    def _join(self, test: Callable[..., Iterator[object]], case: Sequence[object]) -> int:
        self._told.append((test, case))
        return len(self._told) - 1

    def _go_on(self, number: int) -> None:
        """Let a test find out how its fleet was judged; all are judged before the first does."""
        if number not in self._judged:
            store = Fleet()
            judged = {at: test(Beside(store, f"~{at}"), *case) for at, (test, case) in enumerate(self._told)}
            self._analyze(store, [next(says) for says in judged.values()])
            self._judged = judged
        with pytest.raises(StopIteration):
            next(self._judged.pop(number))


def _named_as(test: Callable[..., object], run: Callable[..., None]) -> Callable[..., None]:
    """Give what runs a test the test's name and words, but its own arguments: pytest asks for those."""
    run.__name__, run.__qualname__, run.__module__ = test.__name__, test.__qualname__, test.__module__
    run.__doc__ = test.__doc__
    return run
