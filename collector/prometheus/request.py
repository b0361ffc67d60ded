"""One remote write request as series and samples: decompressed within its bounds, both versions read alike."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cramjam

from collector.errors import BatchError
from collector.prometheus.messages import V1, V2, DecodeError, messages

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
            raise ValueError("a label is no text") from error

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
        raise BatchError(400, "snappy", "the request is no block of snappy (the framed format is not meant)") from error
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
        raise BatchError(400, "protobuf", f"the request is no {proto}") from error


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
