"""A terminal that is drawn over and over: the other screen while it lasts, keys as they are pressed, all put back."""

import os
import select
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _TO_END_OF_LINE, _TO_END = "\x1b[H", "\x1b[K", "\x1b[J"


def size(out: TextIO) -> tuple[int, int]:
    """Return a terminal's columns and rows now; 80 and 24 where it does not say."""
    columns, rows = os.get_terminal_size(out.fileno())
    return columns or 80, rows or 24


class Screen:
    """One terminal, between its two ends."""

    def __init__(self, keys: int, out: TextIO) -> None:
        self._keys = keys
        self._out = out

    def draw(self, text: str) -> None:
        """Show a text from the first line on, without a flash: each line over the one before."""
        rows = text.rstrip("\n").split("\n")[: size(self._out)[1]]
        body = f"{_TO_END_OF_LINE}\r\n".join(rows)
        self._out.write(f"{_HOME}{body}{_TO_END_OF_LINE}{_TO_END}")
        self._out.flush()

    def key(self, seconds: float) -> str | None:
        """Return the key that was pressed within so many seconds, or None; "" where nobody can press one any more."""
        ready, _, _ = select.select([self._keys], [], [], seconds)
        if not ready:
            return None
        return os.read(self._keys, 1).decode("ascii", "replace")


@contextmanager
def screen(keys: int, out: TextIO) -> Iterator[Screen]:
    """Yield a terminal that gives each key at once and does not echo it; what was there before comes back."""
    before = termios.tcgetattr(keys)
    try:
        tty.setcbreak(keys)
        out.write(_ENTER)
        yield Screen(keys, out)
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
        out.write(_LEAVE)
        out.flush()
