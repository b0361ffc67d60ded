"""zstd frames, right and wrong, for tests and benches."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def framed(content: bytes, *, checksum: bool = True, size: bool = True, level: int = 3) -> bytes:
    """Return a frame around anything, with a checksum and a declared size or without."""
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: level,
        zstd.CompressionParameter.checksum_flag: int(checksum),
        zstd.CompressionParameter.content_size_flag: int(size),
    }
    return zstd.compress(content, options=options)


def unframed(frame: bytes) -> bytes:
    """Return what a frame holds."""
    return zstd.decompress(frame)
