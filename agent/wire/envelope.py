"""A batch as it travels and as it lies in the spool: the tables of one agent over one beat or more.

    zstd frame (content checksum on, size declared) around
        u32, little-endian   length of the header, padding included
        header               JSON object, padded with spaces so that what follows is aligned to 8 bytes
        messages             one Arrow record-batch message per table, in the header's order, without schemas

The header names the agent, its stream (a UUID made with the spool), the sequence within it, when the batch was sealed
by the agent's clock (microseconds UTC), the schema version of the writer and the oldest reader that understands it,
and of each table its name, rows and bytes. Identity lives in the body, so that the same bytes are the spool record.
"""

import json
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.errors import EnvelopeError
from agent.wire.arrow import ColumnValues, columns_of, message
from agent.wire.bounded import json_said
from agent.wire.contract import MIN_READER, SCHEMA_VERSION, Table
from agent.wire.tables import TABLES

if sys.version_info >= (3, 14):
    from compression import zstd
else:  # the same code for older Pythons, by its authors
    from backports import zstd

_LEVEL = 3

_MAGIC = b"\x28\xb5\x2f\xfd"
_HAS_CHECKSUM = 0b100  # of the frame header's descriptor, its fifth byte (RFC 8878, 3.1.1.1.1)
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: _LEVEL,
    zstd.CompressionParameter.checksum_flag: 1,
}


def packed(content: bytes) -> bytes:
    """Return the content as one frame that declares its size and carries a checksum."""
    return zstd.compress(content, options=_OPTIONS)


def declared_bytes(frame: bytes) -> int:
    """Return the size that a frame says it unpacks to.

    Raises:
        EnvelopeError: it is no zstd frame, or one without a declared size or checksum.
    """
    try:
        size = zstd.get_frame_info(frame).decompressed_size
    except zstd.ZstdError as error:
        raise EnvelopeError("the batch is not a zstd frame") from error
    if not frame.startswith(_MAGIC):  # one to be skipped is a frame too
        raise EnvelopeError("the batch is not a zstd frame")
    if size is None:
        raise EnvelopeError("the batch does not declare its size")
    if not frame[len(_MAGIC)] & _HAS_CHECKSUM:
        raise EnvelopeError("the batch carries no checksum")
    return size


def unpacked(frame: bytes, max_bytes: int) -> bytes:
    """Return what one frame holds, nothing before or behind it.

    Raises:
        EnvelopeError: it is none, is damaged, or declares more than `max_bytes`.
    """
    declared = declared_bytes(frame)
    if declared > max_bytes:
        raise EnvelopeError(f"the batch unpacks to {declared} bytes; the maximum is {max_bytes}")
    reader = zstd.ZstdDecompressor()
    try:
        content = reader.decompress(frame, max_length=declared + 1)  # at its end exactly, the checksum would be unread
    except zstd.ZstdError as error:
        raise EnvelopeError(f"the batch is damaged: {error}") from error
    if not reader.eof:
        raise EnvelopeError("the batch is damaged: it ends before its frame")
    if reader.unused_data:
        raise EnvelopeError("the batch is damaged: something follows its frame")
    if len(content) != declared:
        raise EnvelopeError(f"the batch unpacks to {len(content)} bytes and declares {declared}")
    return content


class _Beginning:
    """Reads the first bytes of what a frame holds; the rest may be damaged."""

    def __init__(self, frame: bytes) -> None:
        self._rest = frame
        self._reader = zstd.ZstdDecompressor()

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer where there are no more.

        Raises:
            EnvelopeError: it is damaged so far.
        """
        try:
            read, self._rest = self._reader.decompress(self._rest, max_length=count), b""
        except (zstd.ZstdError, EOFError) as error:
            raise EnvelopeError(f"the batch is damaged: {error}") from error
        return read


CONTENT_TYPE = "application/vnd.gpuledger.batch"
EPOCH_HEADER = "Gpuledger-Epoch"  # which owner of its stream a batch is meant for, where it has had several
MAX_BYTES = 64 * 2**20  # of a batch unpacked, for readers that have no setting of their own
_MAX_HEADER_BYTES = 64 * 2**10
_MAX_TABLES = 64
_MAX_NAME = 255

_LENGTH = struct.Struct("<I")
_ALIGNMENT = 8
_MAX_INTEGER = 2**63


@dataclass(frozen=True, slots=True)
class TablePart:
    """One table of a batch: its name, its rows and the bytes of its message."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a batch says of itself. `sent_at` is when the agent sealed it, microseconds UTC by the agent's clock."""

    agent: str
    stream: str
    sequence: int
    sent_at: int
    schema_version: int
    min_reader: int
    tables: tuple[TablePart, ...]


def encode(
    *, agent: str, stream: str, sequence: int, sent_at: int, tables: Mapping[str, Sequence[Mapping[str, object]]]
) -> bytes:
    """Return a batch of these rows. Tables without rows are left out.

    Raises:
        EnvelopeError: a table or column is not of the contract, or a value is not of its column's type.
    """
    columns = {name: columns_of(_table(name), rows) for name, rows in tables.items() if rows}
    return encode_columns(agent=agent, stream=stream, sequence=sequence, sent_at=sent_at, tables=columns)


def encode_columns(
    *, agent: str, stream: str, sequence: int, sent_at: int, tables: Mapping[str, Mapping[str, ColumnValues]]
) -> bytes:
    """Return a batch of these columns, for senders in bulk; see agent.wire.arrow for what a column may be.

    Raises:
        EnvelopeError: a table or column is not of the contract, or its values are not of its type and length.
    """
    messages: dict[str, bytes] = {}
    parts = []
    for name, columns in tables.items():
        rows, messages[name] = message(_table(name), columns)
        parts.append(TablePart(name, rows, len(messages[name])))
    header = Header(agent, stream, sequence, sent_at, SCHEMA_VERSION, MIN_READER, tuple(parts))
    return seal(header, list(messages.values()))


def seal(header: Header, messages: Sequence[bytes]) -> bytes:
    """Return the batch of a header and its messages, which must agree with it."""
    fields = {name: getattr(header, name) for name in _INTEGERS} | {"agent": header.agent, "stream": header.stream}
    fields["tables"] = [[part.name, part.rows, part.bytes] for part in header.tables]
    _header(fields)  # what we would not open, we do not send
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNMENT)
    return packed(b"".join((_LENGTH.pack(len(text)), text, *messages)))


def open_envelope(body: bytes, max_bytes: int = MAX_BYTES) -> tuple[Header, dict[str, memoryview]]:
    """Return the header of a batch and the message of each table, trusting nothing that the body says.

    The messages are views into the unpacked batch. Their inside is not looked at: whoever reads them must validate
    them in full (`RecordBatch.validate(full=True)`), since hostile Arrow crashes a reader that does not.

    Raises:
        EnvelopeError: it is no batch, it is damaged, or it would unpack to more than `max_bytes`.
    """
    content = memoryview(unpacked(body, max_bytes))
    length = _header_length(content)
    start = _LENGTH.size + length
    header = _header_in(content[_LENGTH.size : start], length)
    if start + sum(part.bytes for part in header.tables) != len(content):
        raise EnvelopeError("the batch's tables do not add up to its length")
    messages = {}
    for part in header.tables:
        messages[part.name] = content[start : start + part.bytes]
        start += part.bytes
    return header, messages


def header_of(body: bytes) -> Header:
    """Return the header of a batch, unpacking no more of it than that; the rest may be damaged.

    Raises:
        EnvelopeError: it is no batch, or damaged so far.
    """
    declared_bytes(body)
    content = _Beginning(body)
    length = _header_length(memoryview(content.read(_LENGTH.size)))
    return _header_in(memoryview(content.read(length)), length)


def _header_length(content: memoryview) -> int:
    if len(content) < _LENGTH.size:
        raise EnvelopeError("the batch is too short to have a header")
    (length,) = _LENGTH.unpack_from(content)
    if length > _MAX_HEADER_BYTES:
        raise EnvelopeError(f"the batch declares a header of {length} bytes, more than it has or more than is allowed")
    return int(length)


def _header_in(text: memoryview, length: int) -> Header:
    if length > len(text):
        raise EnvelopeError(f"the batch declares a header of {length} bytes, more than it has or more than is allowed")
    try:
        return _header(json_said(bytes(text)))
    except ValueError as error:
        raise EnvelopeError("the batch's header is not JSON") from error


_INTEGERS = ("sequence", "sent_at", "schema_version", "min_reader")


def _header(fields: object) -> Header:
    if not isinstance(fields, dict):
        raise EnvelopeError("the batch's header is not a JSON object")
    numbers = {name: _integer(fields.get(name), name) for name in _INTEGERS}
    tables = fields.get("tables")
    if not isinstance(tables, list) or len(tables) > _MAX_TABLES:
        raise EnvelopeError(f"the header's tables are not a list of up to {_MAX_TABLES}")
    parts = tuple(map(_part, tables))
    if len({part.name for part in parts}) != len(parts):
        raise EnvelopeError("the header names a table twice")
    return Header(_name(fields.get("agent"), "agent"), _name(fields.get("stream"), "stream"), tables=parts, **numbers)


def _part(entry: object) -> TablePart:
    if not isinstance(entry, list) or len(entry) != 3:
        raise EnvelopeError("a table in the header is not [name, rows, bytes]")
    return TablePart(_name(entry[0], "table"), _integer(entry[1], "rows"), _integer(entry[2], "bytes"))


def _integer(value: object, name: str) -> int:
    if type(value) is not int or not 0 <= value < _MAX_INTEGER:  # a bool is no number here
        raise EnvelopeError(f"the header's {name} is not a non-negative whole number")
    return value


def _name(value: object, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME or not value.isprintable():
        raise EnvelopeError(f"the header's {name} is not printable text of 1 to {_MAX_NAME} characters")
    return value


def _table(name: str) -> Table:
    if name not in TABLES:
        raise EnvelopeError(f"the contract has no table {name}")
    return TABLES[name]
