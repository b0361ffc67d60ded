"""Take little of the host's memory: this process runs beside other people's work."""

import contextlib
import ctypes

_M_ARENA_MAX = -8  # malloc.h of glibc


def one_arena() -> None:
    """Let all threads share one heap; to be called before the first of them starts.

    glibc gives each thread a heap of its own and hands nothing back: two dozen threads that mostly wait held 6 MB more
    after six minutes (bench/README.md). Other C libraries have no such call and no such heaps.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
