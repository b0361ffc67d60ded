"""One GPU for as long as the agent lives: listed, answering, lost, back, and cut into MIG instances or not."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pynvml

from agent.errors import SourceLostError
from agent.nvml.calls import Calls
from agent.nvml.instruments import Instruments
from agent.nvml.meter import EnergyMeter
from agent.nvml.mig import Instance, find_instances
from agent.nvml.processes import GpuProcess, Processes
from agent.source import Value

if TYPE_CHECKING:
    from agent.nvml.surroundings import Surroundings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What one beat said of one GPU: rows of gpu_samples (itself, then its MIG instances) and its processes."""

    rows: tuple[Mapping[str, Value], ...]
    processes: tuple[GpuProcess, ...] = ()


class Gpu:
    """A GPU that the driver listed once. It has rows from then on, whatever becomes of it."""

    def __init__(self, uuid: str, index: int, handle: object, around: "Surroundings") -> None:
        self.uuid = uuid
        self.index = index
        self.handle: Any = handle
        self.lost = False
        self.absent = False  # not even listed: there is nobody to ask
        self.mig = False
        self.instances: dict[str, Instance] = {}
        self._around = around
        self._energy = EnergyMeter(around.wall_seconds)
        self._begin()

    def _begin(self) -> None:
        self.calls = Calls(self.uuid, self._around.failures)
        self._instruments = Instruments(self.uuid, self.calls, self._energy, self._around)
        self._processes = Processes(self.uuid, self.calls)

    @property
    def has_gpm(self) -> bool:
        """Whether the chip measures its own activity, and with it its PCIe traffic."""
        return self._instruments.gpm is not None

    def found(self, index: int, handle: object) -> None:
        """Take a fresh handle of the driver's, and look for MIG and GPM; the GPU may still turn out to be lost.

        Raises:
            DriverChangedError: the driver was replaced under this process.
        """
        self.index, self.handle, self.absent = index, handle, False
        try:
            self._look()
        except SourceLostError as error:
            self._lose(str(error))

    def missing(self) -> None:
        """Note that the driver no longer lists this GPU."""
        self.absent = True
        self._lose(f"{self.uuid} is no longer in the driver's list; reset the GPU or the host")

    def read(self, seconds: float | None) -> GpuReading:
        """Return the beat's rows after `seconds` since the last; a lost GPU says that it is lost, and nothing else.

        Raises:
            DriverChangedError: the driver was replaced under this process.
        """
        if self.absent:
            return self._lost_reading()
        try:
            reading = self._reading(seconds)
        except SourceLostError as error:
            self._lose(str(error))
            return self._lost_reading()
        if self.lost and reading.rows[0]["up"]:
            log.warning("GPU back: %s answers again", self.uuid)
            self.lost = False
        return self._lost_reading() if self.lost else reading

    def close(self) -> None:
        """Give the memory of the activity meters back."""
        self._instruments.close()
        for instance in self.instances.values():
            instance.close()

    def _lose(self, why: str) -> None:
        if not self.lost:
            log.warning("GPU lost: %s", why)
            self.close()
            self._begin()
        self.lost = True

    def _lost_reading(self) -> GpuReading:
        down: list[Mapping[str, Value]] = [{"gpu_uuid": self.uuid, "up": False}]
        down += [{"gpu_uuid": uuid, "parent_uuid": self.uuid, "up": False} for uuid in self.instances]
        return GpuReading(tuple(down))

    def _look(self) -> None:
        mode = self.calls.ask(pynvml.nvmlDeviceGetMigMode, self.handle)
        if mode is not None and self.mig != (mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE):
            self.mig = not self.mig
            self.close()
            self._begin()
        if self.mig:
            self.instances = find_instances(self.calls, self.uuid, self.handle, self.instances, self._around)
        else:
            self.instances = {}
        if self._instruments.gpm is None:
            self._instruments.gpm = self._around.gpm(self.calls, self.handle)

    def _reading(self, seconds: float | None) -> GpuReading:
        before = self.calls.answered
        row: dict[str, Value] = {"gpu_uuid": self.uuid, **self._instruments.row(self.handle, seconds)}
        row["up"] = True if self.calls.answered > before else None  # silence is not a loss
        own = [] if self.mig else self._processes.read(self.handle)
        instances = [instance.read(self.handle, seconds) for instance in self.instances.values()]
        held = [process for _, processes in instances for process in processes]
        return GpuReading((row, *(instance for instance, _ in instances)), (*own, *held))
