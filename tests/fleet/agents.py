"""Agents whose word can be checked: the real spool and the real sender, and a note of what they were told is safe."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from agent.clock import Clock
from agent.delivery.link import Backoff, Link
from agent.delivery.sender import Sender
from agent.files import Disk
from agent.spool.queue import Spool
from agent.spool.segment_store import SegmentStore
from agent.wire.envelope import encode
from tests.waiting import PATIENCE_SECONDS

STEP = 10_000_000  # microseconds that a batch tells of
GPUS = 3
PLENTY = 10**9  # bytes: no batch is dropped for want of room
QUICKLY = 0.05  # of the waits that an agent makes between tries: a test has no hour


class Witness(Spool):
    """A spool that remembers what it was told."""

    def __init__(self, directory: Path) -> None:
        super().__init__(SegmentStore(directory, Disk(sync=False)), PLENTY, PLENTY)
        self.acknowledged: set[int] = set()
        self.sealed_through = -1

    def acknowledge(self, sequence: int, sealed_through: int) -> None:
        """Note an answer."""
        super().acknowledge(sequence, sealed_through)
        self.acknowledged.add(sequence)
        self.sealed_through = max(self.sealed_through, sealed_through)

    @property
    def oldest_waiting(self) -> int | None:
        """The oldest batch that is still to be sent; None where there is none."""
        return self._waiting.oldest()

    @property
    def safe(self) -> set[int]:
        """The batches that the agent was told are sealed, or was answered for."""
        return self.acknowledged | set(range(self.sealed_through + 1))


class Impatient(Backoff):
    """Waits as an agent does, only shorter."""

    def seconds(self, asked: float | None = None) -> float:
        """Return how long to wait."""
        return min(1.0, super().seconds(asked) * QUICKLY)


class Agent:
    """One host: it says something every `every_seconds`, and delivers it whatever happens."""

    def __init__(self, name: str, directory: Path, url: str, began_at: int, every_seconds: float) -> None:
        self.name = name
        self._directory = directory / name
        self.spool = Witness(self._directory)
        self.sender = Sender(self.spool, Link(url), Clock(), Impatient())
        self.said = 0
        self._began_at = began_at
        self._every_seconds = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to speak and to deliver."""
        self._thread.start()
        self.sender.start()

    def fall_silent(self) -> None:
        """Say nothing more; what was said is still delivered."""
        self._stop.set()
        self._thread.join()

    def close(self) -> None:
        """End it."""
        self.fall_silent()
        self.sender.stop(PATIENCE_SECONDS)
        self.spool.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def has_delivered_all(self) -> bool:
        """Whether it was answered for all that it said."""
        return self.spool.waiting == 0 and len(self.spool.acknowledged) == self.said

    def has_delivered(self, number: int) -> bool:
        """Whether it was answered for a batch, and none waits that is older."""
        oldest = self.spool.oldest_waiting
        return number in self.spool.acknowledged and (oldest is None or oldest > number)

    def start_of(self, number: int) -> int:
        """Return when the interval began that a batch tells of, microseconds UTC."""
        return self._began_at + STEP * number

    def _run(self) -> None:
        while not self._stop.wait(self._every_seconds):
            assert self.spool.append(self._batch(self.said)), "the spool of a test has room"
            self.said += 1

    def _batch(self, number: int) -> Callable[[str, int], bytes]:
        start = self._began_at + STEP * number
        interval = {"node": self.name, "started_at": start, "ended_at": start + STEP}
        gpus = [
            interval | {"gpu_uuid": f"{self.name}-{gpu}", "up": True, "memory_used_bytes": number * GPUS + gpu}
            for gpu in range(GPUS)
        ]
        tables = {"gpu_samples": gpus, "host_samples": [interval | {"cpu_busy_ratio": 0.5}]}

        def made(stream: str, sequence: int) -> bytes:
            return encode(agent=self.name, stream=stream, sequence=sequence, sent_at=start + STEP, tables=tables)

        return made
