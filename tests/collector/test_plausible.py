"""What is believed: the fast look at whole columns and the rules row by row must always agree."""

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.contract import Table
from agent.wire.tables import TABLES
from collector.arrow_messages import arrow_schema
from collector.errors import BatchError
from collector.glance import check
from collector.plausible import AHEAD_OF_SENDER, LONGEST_INTERVAL, Clock, faults
from tests.collector.batches import NOW, gpu_rows

CLOCK = Clock(NOW, NOW)
EDGES: dict[str, list[Any]] = {
    "int64": [
        None,
        -1,
        0,
        1,
        NOW - 1,
        NOW,
        NOW + AHEAD_OF_SENDER + 1,
        2**53 + 1,
        2**60,
        2**60 + 1,
        2**63 - 1,
        -(2**63),
    ],
    "float64": [None, -0.1, -0.0, 0.5, 1.0, 1.1, 301.0, 1e13, math.nan, math.inf, -math.inf, 5e-324],
    "string": [None, "", "n1", "n" * 4096, "n" * 4097, "名" * 1366],
    "bool": [None, True, False],
}


@st.composite
def tables_with_rows(draw: st.DrawFn) -> tuple[Table, pa.RecordBatch]:
    """Draw a table of the contract with rows of which most are true and some have an edge in them."""
    table = draw(st.sampled_from(list(TABLES.values())))
    count = draw(st.integers(1, 4))
    rows = [_true_row(table) for _ in range(count)]
    for _ in range(draw(st.integers(0, 2))):
        column = draw(st.sampled_from(table.columns))
        rows[draw(st.integers(0, count - 1))][column.name] = draw(st.sampled_from(EDGES[column.type]))
    return table, pa.RecordBatch.from_pylist(rows, schema=arrow_schema(table))


def _true_row(table: Table) -> dict[str, Any]:
    times = {"started_at": NOW - 10, "ended_at": NOW, "owned_from": NOW - 10, "owned_until": None}
    return {column.name: times.get(column.name, "n1" if column.required else None) for column in table.columns}


@given(tables_with_rows())
def test_the_fast_look_and_the_rules_agree(drawn: tuple[Table, pa.RecordBatch]) -> None:
    """The fast look decides what is stored, the rules what an import stores: they must be one judgement."""
    table, rows = drawn
    broken = list(faults(table, rows, CLOCK))
    if broken:
        with pytest.raises(BatchError, match=f"{table.name}.{broken[0][0].column} in row"):
            check(table, rows, CLOCK)
    else:
        check(table, rows, CLOCK)


@pytest.mark.parametrize("offset", [-5 * 3_600_000_000, 0, 5 * 3_600_000_000])
def test_a_host_whose_clock_is_hours_off_still_counts(offset: int) -> None:
    """Rows are judged by the clock that made them; the receipt keeps both clocks, so the difference is known."""
    clock = Clock(sent_at=NOW, received_at=NOW + offset)
    clock.check()
    check(
        TABLES["gpu_samples"], pa.RecordBatch.from_pylist(gpu_rows(), schema=arrow_schema(TABLES["gpu_samples"])), clock
    )


def test_an_interval_may_be_as_long_as_a_month() -> None:
    """Sources that say little say it for long; years in one row would be booked into every hour of them."""
    table = TABLES["node_states"]
    for length, fine in ((LONGEST_INTERVAL, True), (LONGEST_INTERVAL + 1, False)):
        row = {"node": "n1", "started_at": NOW - length, "ended_at": NOW, "state": "up"}
        rows = pa.RecordBatch.from_pylist([row], schema=arrow_schema(table))
        assert (not list(faults(table, rows, CLOCK))) is fine
