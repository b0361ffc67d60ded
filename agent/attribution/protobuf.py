"""Protocol Buffers on the wire, as far as a reader needs it: the fields of one message."""

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field: whole numbers for varints, bytes for all others.

    Raises:
        ValueError: this is no message.

    Source: protobuf.dev, "Encoding".
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(kind, len(message) + 1)
        if number == 0 or at + length > len(message):
            raise ValueError(f"byte {at} of a message of {len(message)} begins no field")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(message[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError(f"byte {at} of a message of {len(message)} begins no number")
