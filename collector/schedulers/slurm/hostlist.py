"""Slurm's host lists: `gpu[001-003,7],login1`. The agent reads them too, but for its own files, and is no library."""

import itertools
import re

from collector.errors import SchedulerError

MOST_NAMES = 200_000  # of one list
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_BETWEEN_NAMES = re.compile(r",(?![^\[]*\])")  # commas outside brackets


def names(text: str) -> tuple[str, ...]:
    """Return the names that a host list stands for, in its order.

    Raises:
        SchedulerError: a bracket is not closed, a range is no range, or it stands for too many.
    """
    found: list[str] = []
    for part in filter(None, (part.strip() for part in _BETWEEN_NAMES.split(text))):
        pieces = _BRACKETS.split(part)  # text, inside, text, inside, …, text
        choices = [_numbers(piece, text) if position % 2 else [piece] for position, piece in enumerate(pieces)]
        total = len(found)
        for choice in choices:
            total = max(1, total) * len(choice)
        if total > MOST_NAMES or any(bracket in piece for piece in pieces[::2] for bracket in "[]"):
            raise SchedulerError(f"{text[:80]!r} is no host list that can be read")
        found.extend(map("".join, itertools.product(*choices)))
    return tuple(found)


def _numbers(inside: str, whole: str) -> list[str]:
    """Return `001`, `002`, `003`, `7` of `001-003,7`: the first number's width is kept."""
    numbers: list[str] = []
    for part in inside.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdecimal()) or (dash and not (last.isascii() and last.isdecimal())):
            raise SchedulerError(f"{whole[:80]!r} is no host list: {part[:40]!r} is no number")
        span = range(int(first[:18]), int((last or first)[:18]) + 1)
        if not span or len(span) > MOST_NAMES:
            raise SchedulerError(f"{whole[:80]!r} is no host list: {part[:40]!r} is no range")
        numbers.extend(str(number).zfill(len(first)) for number in span)
    return numbers
