"""A real collector in a process of its own, and what it takes: memory over time, processor time by thread."""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.fleet.collectors import Collector

NAMED = Path(__file__).parent / "named_threads.py"
TICK = os.sysconf("SC_CLK_TCK")


def collector(store: Path, settings: Mapping[str, str] | None = None) -> Collector:
    """Return a collector whose threads can be told apart."""
    return Collector(store, settings, launcher=(str(NAMED),))


@dataclass(slots=True)
class Watch:
    """A process and its children, looked at every second from a thread: memory over time, processor time by thread.

    A thread that ends between two looks loses its last second; those of a collector live as long as it does. Pages that
    a child shares with its parent count twice in the memory.
    """

    pid: int
    rss_bytes: list[int] = field(default_factory=list)
    _threads: dict[int, tuple[str, float]] = field(default_factory=dict)
    _before: dict[int, float] = field(default_factory=dict)
    _machine: tuple[float, float] = (0.0, 0.0)
    _began: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Count from now on."""
        self._look()
        self._before = {thread: seconds for thread, (_, seconds) in self._threads.items()}
        self._machine, self._began = _busy_and_waiting(), time.monotonic()
        self.rss_bytes.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> "Spent":
        """Return what was spent since `start`."""
        assert self._thread is not None
        self._stop.set()
        self._thread.join()
        self._look()
        seconds = time.monotonic() - self._began
        threads: defaultdict[str, float] = defaultdict(float)
        for thread, (name, total) in self._threads.items():
            threads[name] += total - self._before.get(thread, 0.0)
        busy, waiting = (now - before for now, before in zip(_busy_and_waiting(), self._machine, strict=True))
        cores = (os.cpu_count() or 1) * seconds
        most = sorted(threads.items(), key=lambda one: -one[1])
        shares = {name: round(spent / seconds, 3) for name, spent in most if spent / seconds >= 0.005}
        return Spent(
            round(seconds, 2), shares, round(busy / cores, 3), round(waiting / cores, 3), tuple(self.rss_bytes)
        )

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            self._look()

    def _look(self) -> None:
        try:
            parent = psutil.Process(self.pid)
            family = [parent, *parent.children()]
            self.rss_bytes.append(sum(one.memory_info().rss for one in family))
            for one in family:
                for task in Path(f"/proc/{one.pid}/task").iterdir():
                    name, seconds = _named_seconds(task, self.pid)
                    self._threads[int(task.name)] = (name if one is parent else "decoder", seconds)
        except (psutil.Error, OSError):  # it is between two lives
            return


@dataclass(frozen=True, slots=True)
class Spent:
    """What a process took over some seconds: cores by thread, the machine's shares, and memory second by second."""

    seconds: float
    cores_by_thread: dict[str, float]
    machine_busy_ratio: float
    machine_waiting_for_disk_ratio: float
    rss_bytes: tuple[int, ...]

    @property
    def cores(self) -> float:
        """Cores of the whole process."""
        return sum(self.cores_by_thread.values())


def _named_seconds(task: Path, pid: int) -> tuple[str, float]:
    """Return a thread's name and processor time; those that DuckDB makes have the name of whoever made them."""
    before, _, after = (task / "stat").read_text().rpartition(") ")
    name = before.partition(" (")[2]
    fields = after.split()
    shown = "event loop" if int(task.name) == pid else "DuckDB" if name.startswith("python") else name
    return shown, (int(fields[11]) + int(fields[12])) / TICK


def _busy_and_waiting() -> tuple[float, float]:
    times = psutil.cpu_times()
    return sum(times[:8]) - times.idle - times.iowait, times.iowait
