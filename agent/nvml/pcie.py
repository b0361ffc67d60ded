"""PCIe traffic of GPUs without GPM, sampled on a slow thread of its own: each question blocks for 20 ms."""

import threading
from collections import Counter
from collections.abc import Mapping

import pynvml

from agent.errors import DriverChangedError, SourceLostError
from agent.nvml.calls import Calls

BYTES_PER_KILOBYTE = 1000
PAUSE_SECONDS = 0.25  # between GPUs: at most about 7 questions a second, whatever the number of GPUs


class _Mean:
    """The mean of the rates since it was last taken, else the newest one; None before the first."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0
        self._newest: float | None = None

    def add(self, rate: float | None) -> None:
        self._newest = rate
        if rate is not None:
            self._sum, self._count = self._sum + rate, self._count + 1

    def take(self) -> float | None:
        mean = self._sum / self._count if self._count else self._newest
        self._sum, self._count = 0.0, 0
        return mean


class PcieWatch:
    """Follows a set of GPUs in turn. What it knows of a GPU is the mean rate of some 20 ms windows: an estimate."""

    def __init__(self, failures: Counter[str], pause_seconds: float = PAUSE_SECONDS) -> None:
        self._failures = failures
        self._pause_seconds = pause_seconds
        self._lock = threading.Lock()
        self._handles: dict[str, object] = {}
        self._means: dict[str, tuple[_Mean, _Mean]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, handles: Mapping[str, object]) -> None:
        """Follow these GPUs, by UUID, from now on, and no others; the thread starts with the first of them."""
        with self._lock:
            self._handles = dict(handles)
            self._means = {uuid: self._means.get(uuid, (_Mean(), _Mean())) for uuid in handles}
        if handles and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gpuledger-pcie", daemon=True)
            self._thread.start()

    def take(self, uuid: str) -> tuple[float | None, float | None]:
        """Return the bytes per second received and transmitted by this GPU since the last call, None where unknown."""
        with self._lock:
            means = self._means.get(uuid)
            return (None, None) if means is None else (means[0].take(), means[1].take())

    def close(self) -> None:
        """End the thread; it stops within one question and one pause."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def _run(self) -> None:
        calls: dict[str, Calls] = {}
        while not self._stop.is_set():
            with self._lock:
                handles = dict(self._handles)
            calls = {uuid: calls.get(uuid) or Calls(uuid, self._failures) for uuid in handles}
            for uuid, handle in handles.items():
                self._measure(uuid, handle, calls[uuid])
                if self._stop.wait(self._pause_seconds):
                    return
            if not handles:
                self._stop.wait(1)

    def _measure(self, uuid: str, handle: object, calls: Calls) -> None:
        try:
            received = calls.ask(pynvml.nvmlDeviceGetPcieThroughput, handle, pynvml.NVML_PCIE_UTIL_RX_BYTES)
            transmitted = calls.ask(pynvml.nvmlDeviceGetPcieThroughput, handle, pynvml.NVML_PCIE_UTIL_TX_BYTES)
        except (SourceLostError, DriverChangedError):  # the beat sees the same and says so
            received = transmitted = None
        with self._lock:
            for mean, kilobytes in zip(self._means.get(uuid, ()), (received, transmitted), strict=False):
                mean.add(None if kilobytes is None else float(kilobytes * BYTES_PER_KILOBYTE))
