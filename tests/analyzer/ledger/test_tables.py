"""The ledger's columns and the precedence of its states are declared once, and what is stored and booked is that."""

import re
from pathlib import Path

import pytest

from analyzer.ledger.precedence import UNWORKED, WORKED
from analyzer.ledger.tables import ADJUSTMENTS, LEDGER, Column
from analyzer.states import BOOKINGS, STATES
from bench.glossary_document import TERMS, glossary_md
from collector.store.database import Store

_COLUMNS = "SELECT column_name, data_type, is_nullable FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
_TAKEN_LAST = "lost_work"  # of what the others have taken (states.LOSABLE)


@pytest.mark.parametrize(("name", "declared"), [("ledger", LEDGER), ("adjustments", ADJUSTMENTS)])
def test_the_store_has_the_columns_that_are_declared(name: str, declared: tuple[Column, ...]) -> None:
    """A migration that adds one and a table that does not name it would book it nowhere, unseen."""
    with Store.open(None) as store, store.session() as session:
        there = session.rows(_COLUMNS, [name])
    assert there == [(column.name, column.type, not column.required) for column in declared]


def literals(cause: str) -> set[str | None]:
    """Return the causes that an expression names; none where it is a column, which a detector fills."""
    return {None} if cause == "NULL" else set(re.findall(r"'([a-z_]+)'", cause))


def test_what_is_booked_is_a_state_with_a_cause_of_it() -> None:
    """A slip in a table of texts would be booked, and raise only when somebody reads it."""
    known = {(booking.state, booking.cause) for booking in BOOKINGS}
    booked = {(line.state, cause) for line in (*UNWORKED, *WORKED) for cause in literals(line.cause)}
    assert booked <= known
    assert {line.state for line in (*UNWORKED, *WORKED)} == set(STATES) - {_TAKEN_LAST}
    assert len(booked) > 20


def test_all_time_that_nobody_worked_is_taken() -> None:
    """The last of them has no condition, so that no second is booked to nothing."""
    assert UNWORKED[-1].when == "true"
    assert [line.when for line in UNWORKED[:-1]].count("true") == 0


def test_the_glossary_is_made_from_the_states() -> None:
    """An id in a file that somebody has must be found under the label that people see."""
    document = Path(__file__).parents[3] / "docs" / "glossary.md"
    assert document.read_text(encoding="utf-8") == glossary_md(), "run make docs"
    assert list(TERMS) == sorted(TERMS, key=str.casefold)
