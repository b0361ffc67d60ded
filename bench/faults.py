"""What goes wrong in a fleet: its parts are killed and come back, and one collector's disk is full for a while."""

import contextlib
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fleet.fleet import Fleet
from tests.fleet.postgres import Postgres
from tests.fleet.s3 import S3Server

DISK_BYTES = 192 * 2**20
LEASE_SECONDS = 30.0  # of silence, after which others take a collector's agents
PATIENCE_SECONDS = 300.0
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Fault:
    """One that happened. Recovery is counted from when the part was started again, or the disk had room again.

    `seconds_to_answers` is until every agent had been answered for all that it had said by then, `seconds_to_sealed`
    until it knew that to be sealed; None where that did not come about in time.
    """

    what: str
    at_seconds: float
    down_seconds: float
    seconds_to_answers: float | None
    seconds_to_sealed: float | None


class Faults:
    """The faults of one run, drawn from dice."""

    def __init__(self, fleet: Fleet, postgres: Postgres, s3: S3Server, disk: Path | None, dice: random.Random) -> None:
        self._fleet, self._postgres, self._s3, self._disk, self._dice = fleet, postgres, s3, disk, dice
        self._began = time.monotonic()
        self.happened: list[Fault] = []

    def one(self) -> None:
        """Let one of them happen, and wait until the fleet has recovered."""
        kind = self._dice.choice(("collector", "collector", "postgres", "s3"))
        if kind == "collector":
            self._collector()
        elif kind == "postgres":
            self._down("PostgreSQL killed", self._postgres.kill, self._postgres.start, self._dice.uniform(1, 15))
        else:
            self._down("S3 killed", self._s3.kill, self._s3.start, self._dice.uniform(1, 15))

    def fill_disk(self, seconds: float) -> None:
        """Fill the disk of the first collector to the last byte, for so long."""
        assert self._disk is not None
        filler = self._disk / "filler"
        self._down("disk full", lambda: _fill(filler), filler.unlink, seconds)

    def _collector(self) -> None:
        victim = self._dice.choice(self._fleet.collectors)
        others = len(self._fleet.collectors) > 1
        long = others and self._dice.random() < 0.25
        down = LEASE_SECONDS + self._dice.uniform(2, 10) if long else self._dice.uniform(0, 5)
        what = "collector killed, away for longer than its leases" if long else "collector killed"
        self._down(what, victim.kill, lambda: victim.start(wait=False), down)

    def _down(self, what: str, end: Callable[[], None], begin: Callable[[], None], seconds: float) -> None:
        at = time.monotonic() - self._began
        end()
        time.sleep(seconds)
        begin()
        back, said = time.monotonic(), self._fleet.said()
        answered = _waited(lambda: self._fleet.delivered(said), back)
        sealed = _waited(lambda: self._fleet.sealed(said), back)
        fault = Fault(what, round(at, 1), round(seconds, 1), answered, sealed)
        self.happened.append(fault)
        print(f"  {fault}", flush=True)


def _waited(true: Callable[[], bool], since: float) -> float | None:
    while not true():
        if time.monotonic() - since > PATIENCE_SECONDS:
            return None
        time.sleep(LOOK_SECONDS)
    return round(time.monotonic() - since, 2)


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(2**20)):
            pass
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(512)):  # the last of it
            pass


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount a small disk on a folder, or give None where that is not allowed here."""
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
