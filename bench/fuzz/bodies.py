"""Hostile batches: valid ones, changed at one of their layers, and made whole again around the change."""

import json
import random
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from agent.wire.contract import MIN_READER, SCHEMA_VERSION
from agent.wire.envelope import encode
from agent.wire.tables import TABLES
from bench.fuzz.rows import true_rows
from bench.fuzz.rubbish import JSON, bytes_of, eights, value
from collector.pipeline.decoding.arrow_messages import arrow_schema
from tests.frames import framed, unframed

BOMB_BYTES = 80 * 2**20
LAYERS = ("frame bytes", "frame", "header", "flatbuffer", "buffers", "values", "content", "none")
WEIGHTS = (8, 6, 16, 24, 18, 20, 6, 2)


class Bodies:
    """Makes one hostile body after another. `streams` keeps those of one maker apart from those of others."""

    def __init__(self, stream: str, now: int, dice: random.Random) -> None:
        self._stream, self._now, self._dice = stream, now, dice
        self._sequence = 0
        self._originals = [self._original() for _ in range(40)]
        self._by_layer: dict[str, Callable[[], bytes]] = {
            "frame bytes": lambda: bytes_of(self._sealed(*self._whole()), dice),
            "frame": self._frame,
            "header": self._header,
            "flatbuffer": lambda: self._sealed(*self._in_messages(self._flatbuffer)),
            "buffers": lambda: self._sealed(*self._in_messages(self._buffers)),
            "values": self._values,
            "content": lambda: _packed(bytes_of(self._content(*self._whole()), dice)),
            "none": lambda: self._sealed(*self._whole()),
        }

    def next(self) -> tuple[str, bytes]:
        """Return the layer that was changed, and the body."""
        self._sequence += 1
        (layer,) = self._dice.choices(LAYERS, WEIGHTS)
        return layer, self._by_layer[layer]()

    def good(self) -> bytes:
        """Return a body in which nothing is wrong."""
        self._sequence += 1
        return self._sealed(*self._whole())

    def _original(self) -> dict[str, tuple[int, bytes]]:
        """Return some tables, each with its rows and its message."""
        names = self._dice.sample(list(TABLES), self._dice.choice((1, 1, 2, 3)))
        rows = {name: true_rows(name, self._dice.choice((1, 2, 5)), self._now, self._dice) for name in names}
        body = encode(agent="fuzz", stream="s", sequence=0, sent_at=self._now, tables=rows)
        return _messages(body)

    def _whole(self) -> tuple[dict[str, Any], dict[str, tuple[int, bytes]]]:
        messages = self._dice.choice(self._originals)
        tables = [[name, rows, len(message)] for name, (rows, message) in messages.items()]
        header = {
            "agent": "fuzz",
            "stream": self._stream,
            "sequence": self._sequence,
            "sent_at": self._now,
            "schema_version": SCHEMA_VERSION,
            "min_reader": MIN_READER,
            "tables": tables,
        }
        return header, messages

    def _content(self, header: dict[str, Any], messages: dict[str, tuple[int, bytes]]) -> bytes:
        text = json.dumps(header).encode()
        text += b" " * (-(len(text) + 4) % 8)
        return struct.pack("<I", len(text)) + text + b"".join(message for _, message in messages.values())

    def _sealed(self, header: dict[str, Any], messages: dict[str, tuple[int, bytes]]) -> bytes:
        return _packed(self._content(header, messages))

    def _frame(self) -> bytes:
        content, dice = self._content(*self._whole()), self._dice
        kind = dice.randrange(8)
        if kind == 0:
            return framed(content, checksum=False)
        if kind == 1:
            return framed(content, size=False)
        if kind == 2:
            return _packed(content) + _packed(content)
        if kind == 3:
            return b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"skip" + _packed(content)
        if kind == 4:
            return _packed(content) + bytes(dice.randrange(1, 20))
        if kind == 5:
            frame = bytearray(_packed(content))
            frame[5 : 5 + dice.choice((1, 2, 4))] = dice.randbytes(dice.choice((1, 2, 4)))  # the declared size
            return bytes(frame)
        if kind == 6 and dice.random() < 0.05:
            return _packed(bytes(BOMB_BYTES))
        return dice.choice((b"", b"\x28\xb5\x2f\xfd", dice.randbytes(200), content))

    def _header(self) -> bytes:
        header, messages = self._whole()
        dice = self._dice
        for _ in range(dice.choice((1, 1, 2))):
            kind = dice.randrange(7)
            if kind == 0:
                header[dice.choice(list(header))] = dice.choice(JSON)
            elif kind == 1:
                del header[dice.choice(list(header))]
                header.setdefault("tables", [])
            elif kind == 2 and isinstance(header["tables"], list):
                header["tables"] = header["tables"] * 2
            elif kind == 3 and isinstance(header["tables"], list) and header["tables"]:
                part = dice.choice(header["tables"])
                if isinstance(part, list) and part:
                    part[dice.randrange(len(part))] = dice.choice((*JSON, *TABLES))
            elif kind == 4:
                header["schema_version"] = dice.choice((0, 1, SCHEMA_VERSION + 1, 2**31))
            elif kind == 5:
                header["sent_at"] = dice.choice((0, 1, self._now + 10**12, self._now - 10**15, 2**62))
            else:
                header["tables"] = [["x", 1, 1]] * dice.choice((65, 1000))
            header.setdefault("tables", [])
        content = self._content(header, messages)
        if dice.random() < 0.2:  # what is no JSON at all, or too deep
            text = dice.choice((b"[" * 20_000, b'{"a":' * 5_000, b"\xff" * 50, bytes_of(content[4:200], dice)))
            content = struct.pack("<I", dice.choice((len(text), 2**31, 70_000))) + text + content[200:]
        return _packed(content)

    def _in_messages(self, change: Callable[[bytes], bytes]) -> tuple[dict[str, Any], dict[str, tuple[int, bytes]]]:
        header, messages = self._whole()
        name = self._dice.choice(list(messages))
        rows, message = messages[name]
        changed = {**messages, name: (rows, change(message))}
        header["tables"] = [[each, count, len(text)] for each, (count, text) in changed.items()]
        return header, changed

    def _flatbuffer(self, message: bytes) -> bytes:
        """Change the metadata of a message: offsets, counts, lengths, in fours."""
        (length,) = struct.unpack_from("<i", message, 4)
        changed = bytearray(message)
        for _ in range(self._dice.choice((1, 1, 2, 6))):
            at = 8 + 4 * self._dice.randrange(max(1, length // 4))
            number = self._dice.choice((0, 1, -1, 2**31 - 1, -(2**31), length, self._dice.randrange(-300, 300)))
            changed[at : at + 4] = struct.pack("<i", number)
        return bytes(changed)

    def _buffers(self, message: bytes) -> bytes:
        """Change what the buffers hold: offsets, validity, numbers."""
        (length,) = struct.unpack_from("<i", message, 4)
        if self._dice.random() < 0.5:
            return eights(message, 8 + length, self._dice)
        return message[: 8 + length] + bytes_of(message[8 + length :], self._dice)

    def _values(self) -> bytes:
        """Tell, in well-formed Arrow, what cannot be true."""
        dice = self._dice
        name = dice.choice(list(TABLES))
        rows = true_rows(name, dice.choice((1, 2, 5)), self._now, dice)
        for _ in range(dice.choice((1, 1, 2, 5))):
            column = dice.choice(TABLES[name].columns)
            dice.choice(rows)[column.name] = value(column.type, dice)
        if dice.random() < 0.2:
            _displace(dice.choice(rows), self._now, dice)
        schema = pa.schema([field.with_nullable(True) for field in arrow_schema(TABLES[name])])
        message = bytes(pa.RecordBatch.from_pylist(rows, schema=schema).serialize())
        header, _ = self._whole()
        header["tables"] = [[name, len(rows), len(message)]]
        return self._sealed(header, {name: (len(rows), message)})


def _displace(row: dict[str, Any], now: int, dice: random.Random) -> None:
    """Move a row to where none can be."""
    for name in row.keys() & {"started_at", "ended_at", "owned_from", "submitted_at"}:
        row[name] = dice.choice((0, now, now + 10**12, now - 10**16, 1_420_070_400_000_000, 4_102_444_800_000_001))


def _packed(content: bytes) -> bytes:
    return framed(content, level=1)


def _messages(body: bytes) -> dict[str, tuple[int, bytes]]:
    content = unframed(body)
    (length,) = struct.unpack_from("<I", content)
    at, found = 4 + length, {}
    for name, rows, size in json.loads(content[4 : 4 + length])["tables"]:
        found[name] = (rows, content[at : at + size])
        at += size
    return found
