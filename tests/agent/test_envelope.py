"""The envelope: what goes in comes out, through the reader that the collector uses, and nothing hostile gets by."""

import array
import io
import json
import struct
from pathlib import Path
from typing import Any

import nanoarrow as na
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import EnvelopeError
from agent.wire.arrow import Masked
from agent.wire.contract import SCHEMA_VERSION, Column
from agent.wire.envelope import Header, TablePart, encode, encode_columns, open_envelope, seal
from agent.wire.tables import TABLES
from tests.frames import framed, unframed

GOLDEN = Path(__file__).parent.parent / "golden"
STREAM = "5f4ee1c8-1de9-4f6d-9d0c-5a8f2ad1f2d3"
PA_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
}
INTERVAL = {"node": "n14", "started_at": 1_763_700_000_000_000, "ended_at": 1_763_700_001_000_000}
ROWS: dict[str, list[dict[str, Any]]] = {
    "gpu_samples": [
        INTERVAL | {"gpu_uuid": "GPU-0", "up": True, "utilization_ratio": 0.5, "memory_used_bytes": 2**36},
        INTERVAL | {"gpu_uuid": "GPU-1", "up": False},
    ],
    "host_samples": [INTERVAL | {"cpu_busy_ratio": 0.25}],
    "allocations": [{"node": "n14", "run_id": "slurm/alpha/81234", "name": "naïve – 名前", "requested_gpus": 16}],
}


def decode(body: bytes, max_bytes: int = 2**24) -> tuple[Header, dict[str, list[dict[str, Any]]]]:
    """Decode as the collector does: schemas by version from the contract, full validation."""
    header, messages = open_envelope(body, max_bytes)
    tables = {}
    for name, view in messages.items():
        columns = TABLES[name].columns_at(header.schema_version)
        schema = pa.schema([(column.name, PA_TYPES[column.type]) for column in columns])
        batch = pa.ipc.read_record_batch(pa.py_buffer(view), schema)
        batch.validate(full=True)
        tables[name] = batch.to_pylist()
    return header, tables


def packed(header: object, *messages: bytes, checksum: bool = True, size: bool = True) -> bytes:
    """Build a body by hand, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return framed(struct.pack("<I", len(text)) + text + b"".join(messages), checksum=checksum, size=size)


GOOD = {
    "agent": "n14",
    "stream": STREAM,
    "sequence": 7,
    "sent_at": 1,
    "schema_version": 1,
    "min_reader": 1,
    "tables": [],
}


def full(row: dict[str, Any], table: str) -> dict[str, Any]:
    """Return the row with a None for every column that it leaves out."""
    return {name: row.get(name) for name in TABLES[table].names}


def test_a_batch_comes_back_as_it_went() -> None:
    """Agent (nanoarrow) and collector (pyarrow) share no Arrow code, so each must hold the other to the format."""
    header, tables = decode(encode(agent="n14", stream=STREAM, sequence=7, sent_at=99, tables=ROWS))
    assert (header.agent, header.stream, header.sequence, header.sent_at) == ("n14", STREAM, 7, 99)
    assert tables == {name: [full(row, name) for row in rows] for name, rows in ROWS.items()}
    assert [(part.name, part.rows) for part in header.tables] == [(name, len(rows)) for name, rows in ROWS.items()]


def test_every_table_of_the_contract_travels() -> None:
    """A table that cannot be encoded would be found out on a customer's host."""
    rows = {name: [{column.name: sample(column) for column in table.columns}] for name, table in TABLES.items()}
    _, tables = decode(encode(agent="n14", stream=STREAM, sequence=0, sent_at=0, tables=rows))
    assert tables == rows


def sample(column: Column) -> object:
    """Return some value of the column's type."""
    return {"string": "x", "int64": 3, "float64": 0.5, "bool": True}[column.type]


cells = st.fixed_dictionaries(
    {"node": st.text(), "started_at": st.integers(0, 2**62), "ended_at": st.integers(0, 2**62), "gpu_uuid": st.text()},
    optional={
        "up": st.none() | st.booleans(),
        "utilization_ratio": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "memory_used_bytes": st.none() | st.integers(-(2**63), 2**63 - 1),
        "parent_uuid": st.none() | st.text(),
    },
)


@settings(max_examples=60, deadline=None)
@given(st.lists(cells, min_size=1, max_size=20))
def test_any_rows_come_back(rows: list[dict[str, Any]]) -> None:
    """Nulls, negative numbers, empty and foreign text: the encoder judges types, not values."""
    _, tables = decode(encode(agent="a", stream=STREAM, sequence=0, sent_at=0, tables={"gpu_samples": rows}))
    assert tables["gpu_samples"] == [full(row, "gpu_samples") for row in rows]


def test_tables_without_rows_do_not_travel() -> None:
    """A beat in which nothing was read is still a batch: its header says that the agent lives."""
    header, tables = decode(encode(agent="a", stream=STREAM, sequence=0, sent_at=0, tables={"progress": []}))
    assert header.tables == ()
    assert tables == {}


def test_bulk_columns_come_back() -> None:
    """The simulator sends millions of rows as buffers; floats with nulls are values and packed bits."""
    columns = {
        "node": ["n1", "n1", "n2"],
        "started_at": array.array("q", [1, 2, 3]),
        "ended_at": array.array("q", [2, 3, 4]),
        "gpu_uuid": na.c_array(["a", "b", "c"], na.string()),
        "power_watts": Masked(array.array("d", [1.5, 0.0, 2.5]), bytes([0b101])),
    }
    body = encode_columns(agent="a", stream=STREAM, sequence=0, sent_at=0, tables={"gpu_samples": columns})
    _, tables = decode(body)
    assert [row["power_watts"] for row in tables["gpu_samples"]] == [1.5, None, 2.5]
    assert [row["gpu_uuid"] for row in tables["gpu_samples"]] == ["a", "b", "c"]
    assert [row["up"] for row in tables["gpu_samples"]] == [None] * 3


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("utilization_ratio", [float("nan")]),
        ("utilization_ratio", [float("inf")]),
        ("utilization_ratio", ["high"]),
        ("memory_used_bytes", [1.5]),
        ("memory_used_bytes", [2**63]),
        ("memory_used_bytes", array.array("d", [1.0])),
        ("memory_used_bytes", array.array("i", [1])),
        ("up", array.array("b", [1])),
        ("parent_uuid", na.c_array([1], na.int64())),
        ("power_watts", Masked(array.array("q", [1]), b"\x01")),
        ("power_watts", [1.0, 2.0]),
        ("no_such_column", [1]),
        ("node", [None]),
    ],
)
def test_what_is_not_of_the_contract_is_not_sent(column: str, values: object) -> None:
    """A wrong type caught on the host names its column; caught at the collector it costs the whole batch."""
    columns: dict[str, Any] = {"node": ["n"], "started_at": [1], "ended_at": [2], "gpu_uuid": ["g"]}
    with pytest.raises(EnvelopeError, match=r"gpu_samples"):
        encode_columns(
            agent="a", stream=STREAM, sequence=0, sent_at=0, tables={"gpu_samples": columns | {column: values}}
        )


def test_rows_name_the_column_that_is_unknown() -> None:
    """A misspelt column would otherwise vanish without a word."""
    with pytest.raises(EnvelopeError, match="no column cpu_bussy_ratio"):
        encode(agent="a", stream=STREAM, sequence=0, sent_at=0, tables={"host_samples": [{"cpu_bussy_ratio": 1.0}]})


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "not a zstd frame"),
        (b"junk", "not a zstd frame"),
        (packed(GOOD, checksum=False), "no checksum"),
        (packed(GOOD, size=False), "does not declare its size"),
        (packed(GOOD)[:-3], "damaged"),
        (packed(GOOD) + b"more", "damaged"),
        (packed(GOOD) * 2, "damaged"),
        (framed(b"abc"), "too short"),
        (packed(b"{"), "not JSON"),
        (packed(b"[" * 60_000), "not JSON"),
        (packed(b"\xff\xfe{}"), "not JSON"),
        (packed([]), "not a JSON object"),
        (packed({}), "sequence is not a non-negative whole number"),
        (packed(GOOD | {"sequence": True}), "sequence is not a non-negative whole number"),
        (packed(GOOD | {"sequence": -1}), "sequence is not a non-negative whole number"),
        (packed(GOOD | {"sequence": 2**63}), "sequence is not a non-negative whole number"),
        (packed(GOOD | {"sequence": 1.0}), "sequence is not a non-negative whole number"),
        (packed(GOOD | {"agent": ""}), "agent is not printable text"),
        (packed(GOOD | {"agent": "a\nb"}), "agent is not printable text"),
        (packed(GOOD | {"stream": "x" * 256}), "stream is not printable text"),
        (packed(GOOD | {"tables": {}}), "not a list"),
        (packed(GOOD | {"tables": [["a", 0, 0]] * 65}), "not a list of up to"),
        (packed(GOOD | {"tables": [["progress", 1]]}), "not \\[name, rows, bytes\\]"),
        (packed(GOOD | {"tables": [["progress", 1, 0], ["progress", 1, 0]]}), "names a table twice"),
        (packed(GOOD | {"tables": [["progress", 1, 8]]}), "do not add up"),
        (packed(GOOD, b"surplus!"), "do not add up"),
        (packed(b" " * 70_000), "declares a header"),
        (framed(b"\xff\xff\xff\xff{}"), "declares a header"),
    ],
)
def test_a_body_that_is_no_batch_says_why(body: bytes, sentence: str) -> None:
    """The collector answers 400 with this sentence, and the operator of a proxy must be able to act on it."""
    with pytest.raises(EnvelopeError, match=sentence):
        open_envelope(body, 2**20)


def test_the_declared_size_is_checked_before_unpacking() -> None:
    """A frame of 3 kB can declare and hold 100 MB: it is refused by what it declares."""
    bomb = framed(bytes(100 * 2**20))
    assert len(bomb) < 20_000
    with pytest.raises(EnvelopeError, match="unpacks to 104857600 bytes; the maximum is 1048576"):
        open_envelope(bomb, 2**20)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_mutation_of_a_batch_passes(data: st.DataObject) -> None:
    """The checksum covers header and tables, so a flipped bit on the way is never taken for a reading."""
    body = bytearray(encode(agent="n14", stream=STREAM, sequence=7, sent_at=99, tables=ROWS))
    position = data.draw(st.integers(0, len(body) - 1))
    body[position] ^= data.draw(st.integers(1, 255))
    try:
        header, messages = open_envelope(bytes(body), 2**20)
    except EnvelopeError:
        return
    original, expected = open_envelope(encode(agent="n14", stream=STREAM, sequence=7, sent_at=99, tables=ROWS), 2**20)
    assert (header, messages) == (original, expected), "a mutant may pass only where the frame has slack"


def test_a_newer_agents_columns_are_a_suffix_that_an_older_reader_ignores() -> None:
    """Additive columns must not make the newest agent go dark: known columns are a prefix of what was sent."""
    schema = na.struct({"node": na.string(), "state": na.string(), "colour": na.string()})
    batch = na.c_array_from_buffers(schema, 1, [None], children=[na.c_array([t], na.string()) for t in "nsc"])
    message = message_of(batch)
    header = Header("a", STREAM, 0, 0, SCHEMA_VERSION + 1, 1, (TablePart("node_states", 1, len(message)),))
    opened, messages = open_envelope(seal(header, [message]), 2**20)
    assert opened.schema_version == SCHEMA_VERSION + 1
    known = pa.schema([("node", pa.string()), ("state", pa.string())])
    assert pa.ipc.read_record_batch(pa.py_buffer(messages["node_states"]), known).to_pylist() == [
        {"node": "n", "state": "s"}
    ]


def message_of(batch: Any) -> bytes:
    """Encode a batch that our own contract does not know."""
    out = io.BytesIO()
    writer = na.ipc.StreamWriter.from_writable(out)
    writer.write_array(batch, write_schema=False)
    writer.release()
    return out.getvalue()


def test_messages_are_aligned() -> None:
    """Arrow readers want their buffers at multiples of 8, or they copy each of them."""
    content = unframed(encode(agent="n14", stream=STREAM, sequence=7, sent_at=99, tables=ROWS))
    (length,) = struct.unpack_from("<I", content)
    assert (4 + length) % 8 == 0
    assert content[4 + length :][:4] == b"\xff\xff\xff\xff", "the continuation marker of an Arrow message"


def test_the_first_release_can_be_read_for_ever() -> None:
    """Agents and collectors are upgraded apart, and a spool may be weeks old."""
    body = (GOLDEN / "batch_v1.bin").read_bytes()
    header, tables = decode(body)
    expected = json.loads((GOLDEN / "batch_v1.json").read_text())
    assert header.schema_version == 1
    assert {"agent": header.agent, "sequence": header.sequence, "tables": tables} == expected
