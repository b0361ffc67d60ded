"""One remote write request as series and samples, decompressed within its bounds, and its answer, which has to wait.

The protobuf messages of remote write 1.0 and 2.0 are declared here as far as they are read. They are few, small and
frozen by their specifications, so they are declared in the words of the library rather than generated: no compiler is
needed to build this, and no generated file can drift from its source. What stands within a series is declared as bytes
where it is read later or only counted, which on the wire is the same.

Sources: Prometheus, specs/prw/remote_write_spec and remote_write_spec_2_0; prompb/types.proto and
prompb/io/prometheus/write/v2/types.proto for the numbers of fields.
"""

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any

import cramjam
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from collector.errors import BatchError

V1, V2 = "prometheus.WriteRequest", "io.prometheus.write.v2.Request"

_Field = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
    "double": _Field.TYPE_DOUBLE,
    "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32,
}

# Message: field: number, type; "*" for repeated ones, a capital for a message of this table.
_SHAPES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Sample": {"value": (1, "double"), "timestamp": (2, "int64")},
    "Label": {"name": (1, "string"), "value": (2, "string")},
    "Request1": {"timeseries": (1, "*bytes")},
    "Series1": {
        "labels": (1, "*bytes"),
        "samples": (2, "*Sample"),
        "exemplars": (3, "*bytes"),
        "histograms": (4, "*bytes"),
    },
    "Request2": {"symbols": (4, "*string"), "timeseries": (5, "*bytes")},
    "Series2": {
        "labels_refs": (1, "*uint32"),
        "samples": (2, "*Sample"),
        "histograms": (3, "*bytes"),
        "exemplars": (4, "*bytes"),
    },
}


@cache
def messages() -> Mapping[str, Any]:
    """Return the message classes by name: Sample, Label, Request1 and Series1, Request2 and Series2."""
    file = descriptor_pb2.FileDescriptorProto(name="gpuledger_remote_write.proto", package="gpuledger", syntax="proto3")
    for name, shape in _SHAPES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in shape.items():
            _declare(message.field.add(name=field, number=number), kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"gpuledger.{name}")) for name in _SHAPES}


def _declare(field: Any, kind: str) -> None:  # noqa: ANN401 - a FieldDescriptorProto
    field.label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
    plain = kind.removeprefix("*")
    if plain in _KINDS:
        field.type = _KINDS[plain]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".gpuledger.{plain}"


_MOST_LABELS = 128  # of one series
_MOST_LABEL_BYTES = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Sent:
    """One series of a request. `key` is the same for the same labels sent in the same way; times are milliseconds."""

    key: bytes
    labels: "LabelsOf"
    samples: Sequence[Any]  # with .timestamp and .value
    histograms: int
    exemplars: int


class LabelsOf:
    """The labels of a series, made into texts only where the series is not known yet."""

    __slots__ = ("_parts", "_symbols")

    def __init__(self, parts: Sequence[Any], symbols: Sequence[str] | None) -> None:
        self._parts = parts
        self._symbols = symbols

    def texts(self) -> dict[str, str]:
        """Return the labels.

        Raises:
            ValueError: there are too many, one comes twice, or they are no text.
        """
        pairs = self._pairs_of_symbols() if self._symbols is not None else self._pairs()
        if len(pairs) > _MOST_LABELS or len(dict(pairs)) != len(pairs):
            raise ValueError("a series has too many labels, or one twice")
        return dict(pairs)

    def _pairs(self) -> list[tuple[str, str]]:
        kind = messages()["Label"]
        try:
            return [(label.name, label.value) for label in map(kind.FromString, self._parts)]
        except DecodeError as error:
            raise ValueError("a label is not text") from error

    def _pairs_of_symbols(self) -> list[tuple[str, str]]:
        names, values = self._parts[0::2], self._parts[1::2]
        symbols = self._symbols or ()
        return [(symbols[name], symbols[value]) for name, value in zip(names, values, strict=True)]


def unpacked(body: bytes, most_bytes: int) -> bytes:
    """Return what a body of snappy's block format holds.

    Raises:
        BatchError: 400 it is no such block, 413 it holds more than `most_bytes`.
    """
    try:
        declared = _declared_bytes(body)
        if declared > most_bytes:
            sentence = f"the request unpacks to {declared} bytes where {most_bytes} are allowed; send less at once"
            raise BatchError(413, "too_large", sentence)
        content = bytes(cramjam.snappy.decompress_raw(body)) if body else b""
    except (cramjam.DecompressionError, ValueError) as error:
        raise BatchError(
            400, "snappy", "the request is not a snappy block (the framed format is not supported)"
        ) from error
    if len(content) != declared:
        raise BatchError(400, "snappy", f"the request holds {len(content)} bytes and declares {declared}")
    return content


def sent(content: bytes, proto: str) -> Iterator[Sent]:
    """Yield the series of a request whose message is `proto`.

    Raises:
        BatchError: 400, it is no such message.
    """
    try:
        yield from {V1: _first, V2: _second}[proto](content)
    except DecodeError as error:
        raise BatchError(400, "protobuf", f"the request is not a {proto}") from error


def _first(content: bytes) -> Iterator[Sent]:
    kinds = messages()
    of_series = kinds["Series1"].FromString
    for raw in kinds["Request1"].FromString(content).timeseries:
        series = of_series(raw)
        labels = series.labels
        key = b"".join(labels)
        if len(key) > _MOST_LABEL_BYTES:
            raise BatchError(400, "labels", f"a series has more than {_MOST_LABEL_BYTES} bytes of labels")
        yield Sent(_digest(key), LabelsOf(labels, None), series.samples, len(series.histograms), len(series.exemplars))


def _second(content: bytes) -> Iterator[Sent]:
    kinds = messages()
    of_series = kinds["Series2"].FromString
    request = kinds["Request2"].FromString(content)
    symbols = list(request.symbols)
    if request.timeseries and (not symbols or symbols[0]):
        raise BatchError(400, "symbols", "the first of the symbols must be the empty text")
    for raw in request.timeseries:
        series = of_series(raw)
        refs = list(series.labels_refs)
        if not refs or len(refs) % 2 or max(refs) >= len(symbols) or len(refs) > 2 * _MOST_LABELS:
            raise BatchError(400, "symbols", "a series refers to labels that the request does not have")
        key = "\0".join([symbols[ref] for ref in refs]).encode()
        if len(key) > _MOST_LABEL_BYTES:
            raise BatchError(400, "labels", f"a series has more than {_MOST_LABEL_BYTES} bytes of labels")
        yield Sent(
            b"2" + _digest(key), LabelsOf(refs, symbols), series.samples, len(series.histograms), len(series.exemplars)
        )


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=16).digest()


def _declared_bytes(body: bytes) -> int:
    """Return the length that a block begins with, a varint of at most five bytes (snappy, format_description.txt)."""
    length = 0
    for place, byte in enumerate(body[:5]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return length
    if body:
        raise ValueError("no length")
    return 0


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a request: what was accepted of it, how many samples were refused, and why."""

    samples: int
    refused: int
    why: str = ""
    histograms: int = 0  # accepted and left out: the contract has no word for them
    exemplars: int = 0


class Pending:
    """What one request still waits for. `answer` holds the Written, or the BatchError that tells the sender to repeat.

    It is counted by the receiver's thread, and let go by the writer's.
    """

    def __init__(self) -> None:
        self.answer: Future[Written] = Future()
        self.samples = self.histograms = self.exemplars = 0
        self.repeats: set[str] = set()  # targets of which something came again
        self._refused = 0
        self._why = ""
        self._open = 1  # buckets and batches to wait for, and the reading of the request itself
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def refuse(self, why: str, count: int = 1) -> None:
        """Count samples, of those that were counted, that can never be written."""
        self.samples -= count
        self._refused += count
        self._why = self._why or why

    def hold(self) -> None:
        """Wait for one thing more."""
        with self._lock:
            self._open += 1

    def done(self, error: BaseException | None = None) -> None:
        """One of the things that it waited for is there, or has failed."""
        with self._lock:
            self._open -= 1
            self._error = self._error or error
            if self._open:
                return
        if self._error is None:
            self.answer.set_result(Written(self.samples, self._refused, self._why, self.histograms, self.exemplars))
        else:
            self.answer.set_exception(self._error)

    def fail(self, error: BaseException) -> None:
        """What it waits for will not all come; the answer says so when the rest is settled."""
        with self._lock:
            self._error = self._error or error


def temporary(error: BaseException) -> BatchError:
    """Return the answer to what may go well the next time.

    Always 503: Prometheus drops what is answered with 429, unless it is told otherwise (retry_on_http_429).
    """
    reason = error.reason if isinstance(error, BatchError) else "store"
    return BatchError(503, reason, f"not all of the request is stored; send it again, it counts once: {error}")
