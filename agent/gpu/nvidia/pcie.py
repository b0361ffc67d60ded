"""PCIe traffic of GPUs without GPM, measured on slow threads: each question blocks for 20 ms."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import pynvml

from agent.errors import DriverChangedError, SourceLostError
from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.units import BYTES_PER_KILOBYTE

PAUSE_SECONDS = 2.0  # between two measurements of a GPU: the driver is asked for 2 % of the time
_UNSUPPORTED_PAUSE_SECONDS = 30.0  # of a GPU that has no such counter; it is asked again rarely
_STALE_SECONDS = 15.0  # after which the newest rate no longer speaks for now


class _Mean:
    """The mean of the rates since it was last taken, else the newest one; None before the first and once stale."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._sum = 0.0
        self._count = 0
        self._newest: float | None = None
        self._measured = 0.0

    def add(self, rate: float | None) -> None:
        self._newest, self._measured = rate, self._seconds()
        if rate is not None:
            self._sum, self._count = self._sum + rate, self._count + 1

    def take(self) -> float | None:
        fresh = self._seconds() - self._measured < _STALE_SECONDS
        mean = self._sum / self._count if self._count else self._newest
        self._sum, self._count = 0.0, 0
        return mean if fresh else None


class _Follower:
    """Measures one GPU on a thread of its own, so that one that hangs keeps no other waiting."""

    def __init__(self, uuid: str, handle: object, failures: Counter[str], pause_seconds: float) -> None:
        self.handle = handle
        self.received, self.transmitted = _Mean(time.monotonic), _Mean(time.monotonic)
        self.calls = Calls(uuid, failures)
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.quiet = False
        self._pause_seconds = pause_seconds
        self.thread = threading.Thread(target=self._run, name="gpuledger-pcie", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.stop.is_set():
            if self.quiet:
                self.stop.wait(self._pause_seconds)
                continue
            received = self._rate(pynvml.NVML_PCIE_UTIL_RX_BYTES)
            transmitted = self._rate(pynvml.NVML_PCIE_UTIL_TX_BYTES)
            with self.lock:
                self.received.add(received)
                self.transmitted.add(transmitted)
            is_supported = self.calls.supports(pynvml.nvmlDeviceGetPcieThroughput.__name__)
            self.stop.wait(self._pause_seconds if is_supported else _UNSUPPORTED_PAUSE_SECONDS)

    def _rate(self, direction: int) -> float | None:
        try:
            kilobytes = self.calls.ask(pynvml.nvmlDeviceGetPcieThroughput, self.handle, direction)
        except (SourceLostError, DriverChangedError):  # the beat sees the same and says so
            return None
        return None if kilobytes is None else float(kilobytes * BYTES_PER_KILOBYTE)


class PcieWatch:
    """Follows a set of GPUs. What it knows of a GPU is the mean rate of some 20 ms windows: an estimate."""

    def __init__(self, failures: Counter[str], pause_seconds: float = PAUSE_SECONDS) -> None:
        self._failures = failures
        self._pause_seconds = pause_seconds
        self._followers: dict[str, _Follower] = {}

    def follow(self, handles: Mapping[str, object]) -> None:
        """Follow these GPUs, by UUID, from now on, and no others."""
        known = self._followers
        self._followers = {uuid: self._follower(uuid, handle) for uuid, handle in handles.items()}
        for uuid in known.keys() - handles.keys():
            known[uuid].stop.set()

    def leave_alone(self, quiet: Collection[str]) -> None:
        """Do not question these GPUs, by UUID, until the next call."""
        for uuid, follower in self._followers.items():
            follower.quiet = uuid in quiet

    def take(self, uuid: str) -> tuple[float | None, float | None]:
        """Return the bytes per second received and transmitted by this GPU since the last call, None where unknown."""
        follower = self._followers.get(uuid)
        if follower is None:
            return None, None
        with follower.lock:
            return follower.received.take(), follower.transmitted.take()

    def refusal(self, uuid: str) -> str | None:
        """Return why this GPU is not measured, in words; None where it is."""
        follower = self._followers.get(uuid)
        return None if follower is None else follower.calls.refusal(pynvml.nvmlDeviceGetPcieThroughput.__name__)

    def close(self) -> None:
        """End the threads; each stops within one question."""
        for follower in self._followers.values():
            follower.stop.set()
        for follower in self._followers.values():
            follower.thread.join(timeout=0.2)

    def _follower(self, uuid: str, handle: object) -> _Follower:
        known = self._followers.get(uuid)
        if known is None:
            return _Follower(uuid, handle, self._failures, self._pause_seconds)
        known.handle = handle
        return known
