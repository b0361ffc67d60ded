"""A real collector whose files are recorded, some senders, and of each answer how much had been recorded by then."""

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.collector.batches import body, gpu_rows, host_rows
from tests.collector.serving import CollectorProcess

ROWS = 40  # of gpu_samples in a batch: five of them are more than the lake keeps in its catalogue
# The log is folded into the file after so much, that it happens several times in a short run.
CODE = """
import sys
from tests.collector.alone import serve
from collector.store import database
database._WAL_AUTOCHECKPOINT = "96KB"
sys.exit(serve(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Answered:
    """A batch that was answered with 200, when so many bytes had been recorded."""

    stream: str
    sequence: int
    recorded: int


@dataclass
class Recorded:
    """What a run left: the records, every body that was sent, and the answers in the order in which they came."""

    root: Path
    log: bytes
    sent: dict[tuple[str, int], bytes]
    answered: list[Answered]


@dataclass
class Sending:
    """Senders of one run, each with its stream, each batch when the last was answered."""

    collector: CollectorProcess
    log: Path
    sent: dict[tuple[str, int], bytes] = field(default_factory=dict)
    answered: list[Answered] = field(default_factory=list)

    def run(self, senders: int, batches: int) -> None:
        """Send, and return when everything is answered."""
        threads = [threading.Thread(target=self._one, args=(f"stream-{number}", batches)) for number in range(senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(self.answered) == senders * batches

    def _one(self, stream: str, batches: int) -> None:
        for sequence in range(batches):
            content = body_of(stream, sequence)
            self.sent[stream, sequence] = content
            answer = self.collector.client.post(content)
            recorded = self.log.stat().st_size  # all that the answer can stand on lies before
            assert answer.status == 200, answer.text
            self.answered.append(Answered(stream, sequence, recorded))


def body_of(stream: str, sequence: int) -> bytes:
    """Return a batch that is told from every other."""
    rows = gpu_rows(ROWS, power_watts=float(sequence), energy_epoch=sequence)
    return body(sequence, {"gpu_samples": rows, "host_samples": host_rows()}, stream)


class RecordedCollector(CollectorProcess):
    """A collector with the recorder preloaded, which seals as often as it can."""

    def __init__(self, store: Path, library: Path, log: Path) -> None:
        super().__init__(store)
        self._preload = {"LD_PRELOAD": str(library), "POWER_ROOT": str(store.parent), "POWER_LOG": str(log)}

    def _spawned(self) -> "subprocess.Popen[bytes]":
        flags = ["--store", str(self.store), "--listen", f"127.0.0.1:{self.client.port}", "--seal-seconds", "0.2"]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])} | self._preload
        return subprocess.Popen([sys.executable, "-c", CODE, *flags], env=environment)


def recorded(folder: Path, library: Path, senders: int = 3, batches: int = 40) -> Recorded:
    """Run a collector from its first start to its orderly end."""
    root, log = folder / "disk", folder / "log"
    root.mkdir()
    collector = RecordedCollector(root / "store.duckdb", library, log)
    collector.start()
    sending = Sending(collector, log)
    try:
        sending.run(senders, batches)
    finally:
        assert collector.stop() == 0
    return Recorded(root, log.read_bytes(), sending.sent, sending.answered)
