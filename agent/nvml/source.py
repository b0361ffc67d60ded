"""The source of everything NVIDIA on this host: rows of gpu_samples and inventory, and who holds which GPU."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pynvml

from agent.errors import SourceLostError
from agent.nvml.calls import Calls
from agent.nvml.gpm import GpmBuffer
from agent.nvml.gpu import Gpu, GpuReading
from agent.nvml.inventory import Inventory
from agent.nvml.library import close_library, device_count, driver_version, open_library
from agent.nvml.pcie import PAUSE_SECONDS, PcieWatch
from agent.nvml.processes import GpuProcess
from agent.nvml.surroundings import Surroundings
from agent.nvml.xid import XidWatch
from agent.source import Reading, Row

LOOK_AGAIN_SECONDS = 30.0  # for GPUs, MIG instances and facts: asking for handles costs some 6 ms a GPU
MOST_GPUS = 64


class NvmlSource:
    """Every GPU of this host, once a beat. A GPU that was seen once has a row for ever, up or lost.

    `failures` counts the questions that failed, by name; `lost` are the UUIDs of the GPUs that are gone.
    """

    name = "gpu"
    period_seconds = 0.0

    def __init__(
        self,
        sysfs: Path = Path("/sys"),
        seconds: Callable[[], float] = time.monotonic,
        wall_seconds: Callable[[], float] = time.time,
        pcie_pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self.failures: Counter[str] = Counter()
        pcie, xid = PcieWatch(self.failures, pcie_pause_seconds), XidWatch(self.failures)
        self._around = Surroundings(self.failures, seconds, wall_seconds, pcie, xid, GpmBuffer())
        self._inventory = Inventory(sysfs, driver_version())
        self._driver = Calls("the driver", self.failures)
        self._gpus: dict[str, Gpu] = {}
        self._processes: list[GpuProcess] = []
        self._count = 0
        self._looked: float | None = None
        self._last_read: float | None = None

    @property
    def lost(self) -> list[str]:
        """The UUIDs of GPUs that were seen and are gone."""
        return [gpu.uuid for gpu in self._gpus.values() if gpu.lost]

    def processes(self) -> list[GpuProcess]:
        """Return who held which GPU at the last reading."""
        return list(self._processes)

    def read(self) -> Reading:
        """Return gpu_samples for every GPU and MIG instance, and inventory where something is new.

        Raises:
            SourceError: the driver does not answer at all.
            DriverChangedError: the driver was replaced under this process; only a new process can load the new one.
        """
        self._processes = []
        now = self._around.seconds()
        changed = self._look(now)
        seconds = None if self._last_read is None else now - self._last_read
        lost = self.lost
        readings = [gpu.read(seconds) for gpu in self._gpus.values()]
        self._last_read = now
        if self.lost != lost:
            self._looked = None  # one went or came back: see at the next beat what else is new
        return self._reading(readings, changed)

    def close(self) -> None:
        """End the threads and give the driver its memory back."""
        self._around.pcie.close()
        self._around.xid.close()
        for gpu in self._gpus.values():
            gpu.close()
        close_library()

    def _reading(self, readings: list[GpuReading], changed: list[Row]) -> Reading:
        self._processes = [process for reading in readings for process in reading.processes]
        rows = [row for reading in readings for row in reading.rows]
        return {"gpu_samples": rows, "inventory": changed} if changed else {"gpu_samples": rows}

    def _look(self, now: float) -> list[Row]:
        """Look for GPUs and their facts, at first, now and then, and when their number changes."""
        known, self._count = self._count, 0  # so that a driver that stopped answering is looked through anew
        self._count = count = min(device_count(), MOST_GPUS)
        if count == known and self._looked is not None and now - self._looked < LOOK_AGAIN_SECONDS:
            return []
        self._looked = now
        self._find(count)
        whole = {gpu.uuid: gpu.handle for gpu in self._gpus.values() if not gpu.lost}
        self._around.xid.follow(whole)
        self._around.pcie.follow({uuid: whole[uuid] for uuid in whole if not self._gpus[uuid].has_gpm})
        return self._inventory.changes(list(self._gpus.values()))

    def _find(self, count: int) -> None:
        seen = {self._found(index) for index in range(count)}
        if None in seen:
            return  # one is listed that cannot be told from others: each is asked by the handle it had
        for uuid in self._gpus.keys() - seen:
            self._gpus[uuid].missing()

    def _found(self, index: int) -> str | None:
        try:
            handle = self._driver.ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            uuid: str | None = None if handle is None else self._driver.ask(pynvml.nvmlDeviceGetUUID, handle)
        except SourceLostError:
            return None
        if uuid is None:
            return None
        if uuid not in self._gpus:
            self._gpus[uuid] = Gpu(uuid, index, handle, self._around)
        self._gpus[uuid].found(index, handle)
        return uuid


def open_nvml(
    sysfs: Path = Path("/sys"),
    seconds: Callable[[], float] = time.monotonic,
    wall_seconds: Callable[[], float] = time.time,
    pcie_pause_seconds: float = PAUSE_SECONDS,
) -> tuple[NvmlSource | None, str]:
    """Open the driver and return its source; or None and the reason why there is none, in words.

    Raises:
        DriverChangedError: the library and the loaded driver do not fit.
    """
    reason = open_library()
    if reason is not None:
        return None, reason
    return NvmlSource(sysfs, seconds, wall_seconds, pcie_pause_seconds), ""
