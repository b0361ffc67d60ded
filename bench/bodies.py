"""Batches of many agents, made quickly: a window of telemetry is encoded once, and then told by whoever has its turn.

An agent's encoder takes a millisecond a batch, and a load generator has no such time. So the messages of a window are
made by that encoder, and for every agent and time the places of host, GPUs and times within them are written over;
what comes out is compressed as an agent does, and is byte for byte what an agent of that name would have sent.
"""

import json
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from agent.wire.arrow import message
from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.envelope import packed
from agent.wire.tables import TABLES
from bench.telemetry import GPUS, NODE, UUID, Rows, Values
from collector.pipeline.decoding.arrow_messages import arrow_schema

SECOND = 1_000_000  # microseconds
NAMESPACE = uuid.UUID("0b9d3a52-9a3f-5c6e-8d55-1f0a6c1b7e21")
AGENTS_MAX = 100_000  # what the five digits of a name can tell apart


@dataclass(frozen=True, slots=True)
class Speaker:
    """One agent: its name, its stream and its GPUs, all of the placeholders' lengths."""

    node: bytes
    stream: str
    uuids: tuple[bytes, ...]


def speaker(number: int, generation: int = 0) -> Speaker:
    """Return the agent of this number; another generation has other streams and GPUs."""
    name = f"b{number:0{len(NODE) - 1}}"
    ids = [str(uuid.uuid5(NAMESPACE, f"{generation}/{name}/{index}")) for index in range(GPUS + 1)]
    return Speaker(name.encode(), ids[GPUS], tuple(f"GPU-{one}".encode() for one in ids[:GPUS]))


@dataclass(frozen=True, slots=True)
class _Column:
    """Where a column's values lie in a message, and what is to be written there."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Part:
    """One table's message in pieces: what stays, and what is written over."""

    name: str
    rows: int
    message: bytes
    columns: tuple[_Column, ...]
    times: Mapping[str, Any]

    def told_by(self, who: Speaker, shift: int) -> list[bytes]:
        """Return the pieces of this message as `who` would have sent them, `shift` microseconds later."""
        pieces, at = [], 0
        for column in self.columns:
            pieces.append(self.message[at : column.start])
            pieces.append(self._written(column, who, shift))
            at = column.end
        pieces.append(self.message[at:])
        return pieces

    def _written(self, column: _Column, who: Speaker, shift: int) -> bytes:
        if column.name == "node":
            return who.node * self.rows
        if column.name == "gpu_uuid":
            return b"".join(who.uuids) * (self.rows // GPUS)
        moved: bytes = (self.times[column.name] + shift).tobytes()
        return moved


@dataclass(frozen=True)
class Window:
    """A stretch of one host's telemetry, ready to be told by any agent; `seconds` is its length."""

    parts: tuple[_Part, ...]
    seconds: int

    @property
    def rows(self) -> dict[str, int]:
        """How many rows it has of each table."""
        return {part.name: part.rows for part in self.parts}

    def body(self, who: Speaker, sequence: int, ends_at: int) -> bytes:
        """Return the batch in which an agent tells this window as one that ended then (microseconds UTC)."""
        header = {
            "agent": who.node.decode(),
            "stream": who.stream,
            "sequence": sequence,
            "sent_at": ends_at + 50_000,
            "schema_version": SCHEMA_VERSION,
            "min_reader": MIN_READER,
            "tables": [[part.name, part.rows, len(part.message)] for part in self.parts],
        }
        text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
        text += b" " * (-(len(text) + 4) % 8)
        shift = ends_at - self.seconds * SECOND
        pieces = [piece for part in self.parts for piece in part.told_by(who, shift)]
        return packed(b"".join((struct.pack("<I", len(text)), text, *pieces)))


def window(tables: Mapping[str, Rows], first_beat: int, beats: int) -> Window:
    """Return these beats of a host's telemetry; its times begin at 0."""
    parts = tuple(
        _part(name, rows.between(first_beat, first_beat + beats), first_beat) for name, rows in tables.items()
    )
    return Window(parts, beats)


def _part(name: str, columns: dict[str, Values], first_beat: int) -> _Part:
    times = {key: columns[key] - first_beat * SECOND for key in ("started_at", "ended_at")}
    rows, encoded = message(TABLES[name], columns | times)
    return _Part(name, rows, encoded, tuple(_places(name, encoded)), times)


def _places(name: str, encoded: bytes) -> list[_Column]:
    """Find the values of host, GPUs and times in a message: where its buffers begin in memory, less where it does."""
    buffer = pa.py_buffer(encoded)
    batch = pyarrow.ipc.read_record_batch(buffer, arrow_schema(TABLES[name]))
    found = []
    for column in ("node", "gpu_uuid", "started_at", "ended_at"):
        if column in batch.schema.names and (name, column) != ("inventory", "gpu_uuid"):
            values = batch.column(column).buffers()[-1]
            assert values is not None, f"BUG: {name}.{column} has no values"
            start = values.address - buffer.address
            width = {"node": len(NODE), "gpu_uuid": len(UUID)}.get(column, np.dtype(np.int64).itemsize)
            found.append(_Column(column, start, start + width * batch.num_rows))
    return sorted(found, key=lambda place: place.start)
