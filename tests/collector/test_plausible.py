"""What is believed: the fast look at whole columns and the rules row by row must always agree."""

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.contract import AHEAD_OF_SENDER, SCHEMA_VERSION, Table
from agent.wire.tables import TABLES
from collector.pipeline.decoding.arrow_messages import Message, arrow_schema, read_message
from collector.pipeline.decoding.validation import LONGEST_INTERVAL, Clock, all_fine, faults, sift, suspects
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


def read(table: Table, rows: pa.RecordBatch) -> Message:
    """Return rows as they come out of a message."""
    return read_message(table, memoryview(bytes(rows.serialize())), SCHEMA_VERSION)


@given(tables_with_rows())
def test_the_fast_look_and_the_rules_agree(drawn: tuple[Table, pa.RecordBatch]) -> None:
    """The fast look decides what is stored, the rules what an import stores: they must be one judgement."""
    table, rows = drawn
    broken = list(faults(table, rows, CLOCK))
    message = read(table, rows)
    assert {rule.column for rule, _ in broken} <= suspects(table, message, CLOCK)
    assert not (broken and all_fine([(table, message)], CLOCK))
    sifted = sift({table.name: message}, CLOCK)[table.name]
    bad = {row for _, mask in broken for row, is_bad in enumerate(mask.to_pylist()) if is_bad}
    assert sifted.rows.equals(rows.take(pa.array([n for n in range(rows.num_rows) if n not in bad], pa.int64())))
    assert (sifted.count, len(sifted.asides)) == (len(bad), len(bad))
    if broken:
        assert sifted.asides[0].reason.startswith(f"{table.name}.{broken[0][0].column} in row") or len(broken) > 1


@given(st.lists(tables_with_rows(), min_size=2, max_size=4, unique_by=lambda drawn: drawn[0].name))
def test_the_look_at_all_tables_at_once_overlooks_none(drawn: list[tuple[Table, pa.RecordBatch]]) -> None:
    """Texts and times are looked at together for all tables; a fault of one must not hide among the others."""
    fine = all_fine([(table, read(table, rows)) for table, rows in drawn], CLOCK)
    if fine:
        assert not any(list(faults(table, rows, CLOCK)) for table, rows in drawn)


def test_a_true_batch_is_believed_at_the_first_look() -> None:
    """The rules take ten times as long: they are for what is suspect."""
    drawn = [
        (table, pa.RecordBatch.from_pylist([_true_row(table)] * 3, schema=arrow_schema(table)))
        for table in TABLES.values()
    ]
    assert all_fine([(table, read(table, rows)) for table, rows in drawn], CLOCK)


@pytest.mark.parametrize("value", [-0.0, -20.0])
def test_what_looks_wrong_and_is_not_is_kept(value: float) -> None:
    """Minus zero, and a GPU in a cold hall, stand above every bound in the order of words."""
    table = TABLES["gpu_samples"]
    rows = pa.RecordBatch.from_pylist(gpu_rows(3, temperature_celsius=value), schema=arrow_schema(table))
    message = read(table, rows)
    assert suspects(table, message, CLOCK) == {"temperature_celsius"}
    assert sift({table.name: message}, CLOCK)[table.name].rows.equals(rows)


def test_what_lies_under_a_null_is_not_judged() -> None:
    """Senders in bulk leave anything there; it was never said."""
    table = TABLES["gpu_samples"]
    rows = pa.RecordBatch.from_pylist(gpu_rows(3), schema=arrow_schema(table))
    index = table.names.index("power_watts")
    under = pa.Array.from_buffers(
        pa.float64(), 3, [pa.py_buffer(b"\0" * 8), pa.py_buffer(struct.pack("<3d", -1, math.nan, 9e9))]
    )
    message = read(table, rows.set_column(index, rows.schema.field(index), under))
    sifted = sift({table.name: message}, CLOCK)[table.name]
    assert (sifted.rows.num_rows, sifted.count) == (3, 0)


@pytest.mark.parametrize("offset", [-5 * 3_600_000_000, 0, 5 * 3_600_000_000])
def test_a_host_whose_clock_is_hours_off_still_counts(offset: int) -> None:
    """Rows are judged by the clock that made them; the receipt keeps both clocks, so the difference is known."""
    clock = Clock(sent_at=NOW, received_at=NOW + offset)
    clock.check()
    table = TABLES["gpu_samples"]
    assert all_fine([(table, read(table, pa.RecordBatch.from_pylist(gpu_rows(), schema=arrow_schema(table))))], clock)


def test_an_interval_may_be_as_long_as_a_month() -> None:
    """Sources that say little say it for long; years in one row would be booked into every hour of them."""
    table = TABLES["node_states"]
    for length, fine in ((LONGEST_INTERVAL, True), (LONGEST_INTERVAL + 1, False)):
        row = {"node": "n1", "started_at": NOW - length, "ended_at": NOW, "state": "up"}
        rows = pa.RecordBatch.from_pylist([row], schema=arrow_schema(table))
        assert (not list(faults(table, rows, CLOCK))) is fine
