"""Which batches the collector will never get, until it has been told of them.

A range is told in a row of agent_samples, one a beat, and the batch with that row may be lost too. So a range is on
the list until a batch that tells it as it now is has been acknowledged.
"""

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.wire.bounded import json_said

_LOG = logging.getLogger(__name__)
HIGHEST = 2**62  # of a sequence; a name with more is junk, and must not leave us without numbers
MOST_RANGES = 64  # drops go oldest first and make few; beyond this the oldest is forgotten, and counted

Range = tuple[int, int]  # first and last sequence


@dataclass(slots=True)
class _Lost:
    first: int
    last: int
    told_in: int | None = None  # the batch that tells of it


class Losses:
    """The ranges of one stream that are still to be told, oldest first; at most MOST_RANGES.

    `keep` is given the list whenever it changes, so that it outlives a restart. Counted since the agent began are
    `batches` and `rows` by table that the collector will never get, and `forgotten`, ranges that it is not told of.
    """

    def __init__(self, ranges: Iterable[Range], keep: Callable[[Sequence[Range]], None]) -> None:
        self.batches = 0
        self.rows: Counter[str] = Counter()
        self.forgotten = 0
        self._counting = threading.Lock()
        self._keep = keep
        self._lost: list[_Lost] = []
        for first, last in ranges:
            self._add(first, last)

    @property
    def ranges(self) -> list[Range]:
        """What the collector does not know yet."""
        return [(lost.first, lost.last) for lost in self._lost]

    def add(self, sequence: int, rows: Mapping[str, int]) -> None:
        """Note that a batch is lost, and with it what it told."""
        if not self._lost or not self.batches:
            _LOG.warning("batches are lost, starting at %d; the collector will be told which", sequence)
        self.count(rows)
        self.tell_again(sequence)
        self._add(sequence, sequence)
        self._keep(self.ranges)

    def count(self, rows: Mapping[str, int]) -> None:
        """Count a batch that is lost, with its rows by table. From any thread: the beat must not wait for a disk."""
        with self._counting:
            self.batches += 1
            self.rows.update(rows)

    def untold(self) -> Range | None:
        """Return the oldest range that no batch tells of, None where there is none."""
        return next(((lost.first, lost.last) for lost in self._lost if lost.told_in is None), None)

    def told(self, ranges: Sequence[Range], sequence: int) -> None:
        """Note that a batch tells of these; what has grown since is not told."""
        for lost in self._lost:
            if (lost.first, lost.last) in ranges:
                lost.told_in = sequence

    def arrived(self, sequence: int) -> None:
        """Forget what a batch told: the collector has it."""
        if any(lost.told_in == sequence for lost in self._lost):
            self._lost = [lost for lost in self._lost if lost.told_in != sequence]
            self._keep(self.ranges)

    def clear(self) -> None:
        """Forget what was to be told: another stream has begun, and the numbers mean nothing any more."""
        self._lost = []
        self._keep(())

    def tell_again(self, sequence: int) -> None:
        """Note that a batch will not arrive: what it told is untold."""
        for lost in self._lost:
            if lost.told_in == sequence:
                lost.told_in = None

    def _add(self, first: int, last: int) -> None:
        touching = [lost for lost in self._lost if lost.first <= last + 1 and first <= lost.last + 1]
        for lost in touching:
            first, last = min(first, lost.first), max(last, lost.last)
        others = [lost for lost in self._lost if lost not in touching]
        ranges = sorted([*others, _Lost(first, last)], key=lambda lost: lost.first)
        self.forgotten += max(0, len(ranges) - MOST_RANGES)
        self._lost = ranges[-MOST_RANGES:]  # a new list: a beat may be reading the old one


def noted(stream: str, ranges: Sequence[Range]) -> bytes:
    """Return the note of what is lost."""
    return json.dumps({"stream": stream, "lost": ranges}).encode()


def lost_ranges(stream: str, note: bytes) -> list[Range]:
    """Return the ranges of a note; none where it is of another stream.

    Raises:
        ValueError: it is no note.
    """
    try:
        content = json_said(note)
        ranges = [(first, last) for first, last in content["lost"]] if content["stream"] == stream else []
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"no note of lost batches: {error!r}") from error
    if not all(type(first) is type(last) is int and 0 <= first <= last < HIGHEST for first, last in ranges):
        raise ValueError("no note of lost batches: a range is not two numbers in order")
    return ranges
