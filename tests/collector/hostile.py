"""Bodies that no agent of ours would send: packed by hand, past every check of the encoder."""

import json
import random
import struct
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from agent.wire.contract import SCHEMA_VERSION
from agent.wire.tables import TABLES
from collector.errors import BatchError
from collector.pipeline.batch_commit import BatchCommit
from collector.pipeline.decoding.arrow_messages import _follow, _slot, _vector, arrow_schema
from collector.pipeline.decoding.batch import Batch, decode
from collector.store.database import Store
from tests.collector.batches import NOW, STREAM, body, gpu_rows, host_rows
from tests.frames import framed, unframed

FLUSH_EVERY = 400


def packed(content: bytes) -> bytes:
    """Return a frame as the envelope wants it, around anything."""
    return framed(content)


def unpacked(frame: bytes) -> bytes:
    """Return what a frame holds."""
    return unframed(frame)


def sealed(messages: dict[str, bytes], rows: int = 2, **header: Any) -> bytes:
    """Return a batch of these messages, whatever they are; `header` goes over the true one."""
    fields: dict[str, Any] = {
        "agent": "n14",
        "stream": STREAM,
        "sequence": 1,
        "sent_at": NOW,
        "schema_version": SCHEMA_VERSION,
        "min_reader": 1,
        "tables": [[name, rows, len(message)] for name, message in messages.items()],
    } | header
    text = json.dumps(fields).encode()
    return packed(struct.pack("<I", len(text)) + text + b"".join(messages.values()))


def message(table: str, rows: list[dict[str, Any]], *, extra: dict[str, Any] | None = None) -> bytes:
    """Return the Arrow message of rows, with columns appended that the contract does not have."""
    schema = arrow_schema(TABLES[table])
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    for name, column in (extra or {}).items():
        batch = batch.append_column(name, column)
    return bytes(batch.serialize())


def numbered(frame: bytes, sequence: int) -> bytes:
    """Return the same batch under another sequence."""
    content = unpacked(frame)
    (length,) = struct.unpack_from("<I", content)
    fields = json.loads(content[4 : 4 + length]) | {"sequence": sequence}
    text = json.dumps(fields).encode()
    return packed(struct.pack("<I", len(text)) + text + content[4 + length :])


def compressed_message(table: str, rows: list[dict[str, Any]]) -> bytes:
    """Return an Arrow message whose buffers are compressed within."""
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(TABLES[table]))
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    out = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(out, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    reader = pyarrow.ipc.MessageReader.open_stream(out.getvalue())
    reader.read_next_message()
    return bytes(reader.read_next_message().serialize())


def mutant(frame: bytes, dice: random.Random) -> bytes:
    """Return a batch with some bytes changed, cut out or doubled, mostly within a frame that is whole again."""
    if dice.random() < 0.1:
        return _mutated(frame, dice)
    return packed(_mutated(unpacked(frame), dice))


def _mutated(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 1, 2, 8))):
        at = dice.randrange(len(changed))
        kind = dice.random()
        if kind < 0.45:
            changed[at] ^= 1 << dice.randrange(8)
        elif kind < 0.8:
            changed[at : at + 4] = dice.choice((b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\1\0\0\x80"))
        elif kind < 0.9:
            del changed[at : at + dice.randrange(1, 64)]
        else:
            changed[at:at] = changed[max(0, at - 32) : at]
    return bytes(changed)


def distort() -> Counter[str]:
    """Decode a batch with each number of its Arrow layout changed in turn; return how each ended."""
    ends: Counter[str] = Counter()
    for table, rows in (("gpu_samples", gpu_rows(3)), ("host_samples", host_rows())):
        whole = message(table, rows)
        for at in _numbers_of_the_layout(whole):
            for value in (-1, 0, 1, 4, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63)):
                bad = whole[:at] + struct.pack("<q", value) + whole[at + 8 :]
                try:
                    decode(sealed({table: bad}, rows=len(rows)), NOW)
                    ends["accepted"] += 1
                except BatchError as refusal:
                    ends[refusal.reason] += 1
    return ends


def _numbers_of_the_layout(whole: bytes) -> list[int]:
    """Return where in a message the lengths and null counts of its columns stand, and the places of its buffers."""
    metadata = pyarrow.ipc.read_message(whole).metadata
    start = whole.index(bytes(metadata))
    batch = _follow(memoryview(metadata), _slot(memoryview(metadata), _follow(memoryview(metadata), 0), 2))
    found = []
    for slot in (1, 2):  # nodes and buffers, two numbers each
        count, at = _vector(memoryview(metadata), _slot(memoryview(metadata), batch, slot))
        found += [start + at + 8 * number for number in range(2 * count)]
    return found


def bombard(count: int, seed: int) -> Counter[str]:
    """Decode `count` mutants and land those that pass; return how each ended. Anything but a BatchError gets out."""
    dice = random.Random(seed)
    ends: Counter[str] = Counter()
    waiting: list[Batch] = []
    originals = [
        body(1, {"gpu_samples": gpu_rows(3)}),
        body(2),
        body(3, {"host_samples": host_rows(), "inventory": [_interval() | {"sku": "H100-80GB"}]}),
    ]
    with Store.open(None) as store, BatchCommit(store) as batch_commit:
        for number in range(count):
            try:
                waiting.append(decode(mutant(dice.choice(originals), dice), NOW))
                ends["accepted"] += 1
            except BatchError as refusal:
                ends[refusal.reason if 400 <= refusal.status < 500 else f"status {refusal.status}"] += 1
            if len(waiting) >= FLUSH_EVERY or number == count - 1:
                batch_commit.land(waiting)
                waiting.clear()
    return ends


def _interval() -> dict[str, Any]:
    return {"node": "n14", "started_at": NOW - 10_000_000, "ended_at": NOW}
