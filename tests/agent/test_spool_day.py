"""A day without a collector: 2160 beats on a fake clock, a real spool, a real port that nobody listens on."""

import gc
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from agent.daemon.agent import AgentSource, AgentState
from agent.delivery.batch import Batcher
from agent.delivery.link import Backoff, Link
from agent.delivery.sender import Sender
from agent.files import Disk
from agent.sampling.sampler import Sampler
from agent.sampling.stamp import Stamper
from agent.sampling.wiring import HostSources
from agent.source import Reading
from agent.spool.queue import Spool
from agent.spool.segment_store import SegmentStore
from agent.wire.units import SECOND_US
from tests.agent.batches import identity, rows_of
from tests.agent.no_gpus import NoGpus
from tests.agent.receiver import Receiver
from tests.fake_clock import FakeClock

ROOT = Path(__file__).parents[2]
BEAT_SECONDS = 40.0
BATCH_SECONDS = 120.0  # three beats, so that the day is done in seconds
MOST_BYTES = 1_000_000
HOUR = 90  # beats


class CountingDisk(Disk):
    """A disk that counts what is done to it."""

    def __init__(self) -> None:
        super().__init__(sync=False)
        self.steps = 0

    def create(self, path: Path, content: bytes) -> None:
        """Count, and do it."""
        self.steps += 1
        super().create(path, content)

    def remove(self, path: Path) -> None:
        """Count, and do it."""
        self.steps += 1
        super().remove(path)


class Host:
    """Says a little of a host."""

    name = "host"
    period_seconds = 0.0

    def read(self) -> Reading:
        """Say it."""
        return {"host_samples": [{"cpu_busy_ratio": 0.5}]}


@dataclass
class Day:
    """An agent put together as the daemon does, whose threads are stepped by hand."""

    place: Path
    url: str

    def __post_init__(self) -> None:
        """Put it together."""
        self.clock, self.disk = FakeClock(), CountingDisk()
        self.spool = Spool(SegmentStore(self.place / "spool", self.disk), MOST_BYTES, 10**6)
        self.sender = Sender(self.spool, Link(self.url), self.clock, Backoff(random.Random(7).random))
        host_sources = HostSources([], NoGpus(), lambda: None)
        own = AgentSource(lambda: AgentState(self.sampler, self.spool, self.sender, host_sources), Path("/proc"))
        self.sampler = Sampler(Stamper("n14"), [Host(), own], self.clock, BEAT_SECONDS)
        self.batcher = Batcher("n14", self.clock, BATCH_SECONDS, lambda draft: self.spool.append(draft, draft.tells))
        self.next_try = 0.0

    def beat(self, beats: int) -> None:
        """Let time pass."""
        for _ in range(beats):
            self.clock.advance(round(BEAT_SECONDS * SECOND_US))
            self.batcher.add(self.sampler.beat())
            while self.spool.waiting and self.clock.monotonic() / SECOND_US >= self.next_try:
                self.next_try = self.clock.monotonic() / SECOND_US + self.sender.step(0)

    def disk_bytes(self) -> int:
        """Return what the spool takes on the disk, by the blocks of its files."""
        return sum(path.lstat().st_blocks * 512 for path in (self.place / "spool").rglob("*") if path.is_file())

    def close(self) -> None:
        """End it."""
        self.sampler.close()
        self.sender.close()
        self.spool.close()


@contextmanager
def a_day(place: Path) -> Iterator[Day]:
    """Make a day on which nobody listens, where a receiver may later."""
    with socket.socket() as taken:  # the port is ours, and nobody listens
        taken.bind(("127.0.0.1", 0))
        made = Day(place, f"http://127.0.0.1:{taken.getsockname()[1]}")
        yield made
        made.close()


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    """Return such a day."""
    with a_day(tmp_path) as made:
        yield made


# In a process of its own: the objects of this one are also those of other tests' threads.
ALONE = """
import sys
from pathlib import Path
from tests.agent.test_spool_day import a_day, lived_through
with a_day(Path(sys.argv[1])) as day:
    lived_through(day)
"""


def test_a_collector_that_is_down_for_a_day_costs_the_host_nothing_but_spool(tmp_path: Path) -> None:
    """Not more memory, not more steps on the disk, not more bytes than allowed; and the day comes, in order."""
    ended = subprocess.run([sys.executable, "-c", ALONE, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def lived_through(day: Day) -> None:
    """Live through the day, and look what it has cost."""
    day.beat(12 * HOUR)
    gc.collect()
    steps, objects = day.disk.steps, len(gc.get_objects())
    day.beat(6 * HOUR)
    steps_then = day.disk.steps - steps
    day.beat(6 * HOUR)
    gc.collect()
    assert day.spool.dropped > 100, "the bound was met, or this shows nothing"
    assert day.disk.steps - steps - steps_then == steps_then, "the last hours took as many steps as those before"
    assert len(gc.get_objects()) < objects + 500
    assert day.disk_bytes() <= MOST_BYTES + 10**5
    assert 300 <= day.sender.counts.failures <= 1500, "a try every few minutes, for as long as it lasts"

    lost, waiting = day.spool.dropped, day.spool.waiting
    with Receiver() as receiver:
        day.sender._home = day.sender._link = Link(receiver.url)
        day.next_try = 0.0
        day.beat(HOUR)
    sequences = [identity(body)[1] for body in receiver.bodies]
    assert sequences == list(range(lost, lost + len(sequences))), "all that was left, oldest first, each once"
    assert len(sequences) >= waiting
    assert (day.spool.waiting, day.spool.untold_loss) == (0, None)
    own = [row for body in receiver.bodies for row in rows_of(body, "agent_samples")]
    told = {(row["dropped_from"], row["dropped_until"]) for row in own if row["dropped_from"] is not None}
    assert (0, lost - 1) in told, "the whole hole is declared"
    assert all(first == 0 for first, _ in told)
    hosts = [row for body in receiver.bodies for row in rows_of(body, "host_samples")]
    assert all(left["ended_at"] == right["started_at"] for left, right in pairwise(hosts))


def test_a_spool_of_a_day_is_opened_again(day: Day, tmp_path: Path) -> None:
    """The agent is upgraded in the midst of the outage."""
    day.beat(6 * HOUR)
    waiting, lost = day.spool.waiting, day.spool.untold_loss
    day.spool.close()
    again = Spool(SegmentStore(tmp_path / "spool"), MOST_BYTES, 10**6)
    assert (again.waiting, again.untold_loss, again.dropped) == (waiting, lost, 0)
    again.close()
