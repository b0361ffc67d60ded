"""Hostile texts at one door, in a gigabyte of memory more than the process has; door and seed make them again."""

import random
import resource
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from bench.fuzz.doors import REFUSED, Door
from bench.fuzz.texts import Texts

MORE_BYTES = 2**30  # of memory, that a parser may take beside what the process has
MOST_FAULTS = 5


@dataclass(slots=True)
class Knocked:
    """What became of the texts. `faults` are exceptions that no caller expects; seconds are the processor's."""

    door: str
    seed: int
    ends: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    slowest_text: str = ""
    rss_bytes_max: int = 0
    faults: list[str] = field(default_factory=list)

    def take(self, door: Door, text: bytes, folder: Path) -> None:
        """Give one text to the door."""
        began = time.process_time()
        try:
            door.take(text, folder)
            self.ends["read"] += 1
        except REFUSED:
            self.ends["refused"] += 1
        except BaseException:  # noqa: BLE001 - MemoryError too
            self.ends["fault"] += 1
            if len(self.faults) < MOST_FAULTS:
                self.faults.append(f"{traceback.format_exc(limit=-4)} text {text[:500]!r}")
        if (took := time.process_time() - began) > self.slowest_seconds:
            self.slowest_seconds, self.slowest_text = took, repr(text[:100])


def knocked(door: Door, seed: int, folder: Path, *, texts: int | None = None, seconds: float = 0.0) -> Knocked:
    """Give a door so many texts, else texts for so many seconds, within a gigabyte more than the process has."""
    found, made = Knocked(door.name, seed), Texts(door, random.Random(seed))
    before, until = resource.getrlimit(resource.RLIMIT_AS), time.monotonic() + seconds
    resource.setrlimit(resource.RLIMIT_AS, (_address_space_bytes() + MORE_BYTES, before[1]))
    try:
        for number in count():
            if number == texts or (texts is None and time.monotonic() >= until):
                break
            found.take(door, made.next(), folder)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    found.rss_bytes_max = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found


def _address_space_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
