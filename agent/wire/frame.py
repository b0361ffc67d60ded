"""The zstd frame around a batch, by the standard library from Python 3.14 on. The only module that imports zstd."""

import sys

from agent.errors import EnvelopeError

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
        raise EnvelopeError(f"the batch unpacks to {declared} bytes, and {max_bytes} are allowed")
    reader = zstd.ZstdDecompressor()
    try:
        content = reader.decompress(frame, max_length=declared + 1)  # at its end exactly, the checksum would be unread
    except zstd.ZstdError as error:
        raise EnvelopeError(f"the batch is damaged: {error}") from error
    if not reader.eof:
        raise EnvelopeError("the batch is damaged: it ends before its frame does")
    if reader.unused_data:
        raise EnvelopeError("the batch is damaged: something follows its frame")
    if len(content) != declared:
        raise EnvelopeError(f"the batch unpacks to {len(content)} bytes and declares {declared}")
    return content


class Beginning:
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
