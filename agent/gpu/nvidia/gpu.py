"""One GPU for as long as the agent lives: listed, answering, lost, back, and cut into MIG instances or not."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import pynvml

from agent.attribution.devices import Device
from agent.attribution.gpu_process import NOTHING_SAID, Holding, merged_holdings
from agent.errors import SourceLostError
from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.context import NvmlContext
from agent.gpu.nvidia.energy import EnergyMeter
from agent.gpu.nvidia.facts import ListedGpu, facts
from agent.gpu.nvidia.gpm import GpmBuffer
from agent.gpu.nvidia.instruments import Instruments
from agent.gpu.nvidia.mig import Instance, find_instances
from agent.gpu.nvidia.processes import Processes
from agent.source import Row, Value

_LOG = logging.getLogger(__name__)
_MOST_GONE = 64  # MIG instances that are no more and are remembered, so that nobody is said to hold them still


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What one beat said of one GPU: rows of gpu_samples (itself, then its MIG instances) and who holds it.

    `facts` are rows of inventory, where it was looked at anew.
    """

    rows: tuple[Mapping[str, Value], ...]
    holding: Holding = NOTHING_SAID
    facts: tuple[Row, ...] = ()


class Gpu:
    """A GPU that the driver listed once. It has rows from then on, whatever becomes of it.

    `read` and `close` ask the driver and belong to one thread at a time; the rest is for any.
    """

    def __init__(self, uuid: str, around: NvmlContext) -> None:
        self.uuid = uuid
        self.around = around
        self.lost = False
        self.absent = False  # not even listed: there is nobody to ask
        self.mig = False
        self.architecture: int | None = None  # nvml.h, NVML_DEVICE_ARCH_*
        self.instances: dict[str, Instance] = {}
        self.seconds: float | None = None  # since the last reading, None where it is the first
        self.energy = EnergyMeter(around.wall_seconds, around.energy.known(uuid))
        self._place = ListedGpu(0, None, ())
        self._found: ListedGpu | None = None  # what is not yet looked at
        self._gone: tuple[str, ...] = ()  # instances that were deleted
        self._buffer: GpmBuffer | None = None
        self._begin()

    def _begin(self) -> None:
        self.calls = Calls(self.uuid, self.around.failures, self.around.seconds)
        self.instruments = Instruments(self.uuid, self.calls, self.energy, self.around)
        self._processes = Processes(self.uuid, self.calls)
        self._held = Holding()
        self._held_at: float | None = None

    @property
    def has_gpm(self) -> bool:
        """Whether the chip measures its own activity, and with it its PCIe traffic."""
        return self.instruments.gpm is not None

    def found(self, place: ListedGpu) -> None:
        """Take how the driver lists it now; the next reading looks at it anew. It may still turn out to be lost."""
        self.absent, self._found = False, place

    def missing(self) -> None:
        """Note that the driver no longer lists this GPU; the roster, which misses it, says so in the log."""
        self.absent = self.lost = True

    def read(self) -> GpuReading:
        """Return the beat's rows; a lost GPU says that it is lost, and nothing else.

        Raises:
            DriverChangedError: the driver was replaced under this process.
        """
        try:
            looked = self._look()
            reading = self._reading(looked)
        except SourceLostError as error:
            self._lose(str(error))
            return self.lost_reading()
        if self.lost and reading.rows[0]["up"]:
            _LOG.warning("GPU back: %s answers again", self.uuid)
            self.lost = False
        return self.lost_reading() if self.lost else reading

    def devices(self) -> list[Device]:
        """Return the names of this GPU and its MIG instances. Asks nothing."""
        index = self._place.index
        parts = [Device(uuid, index, self.uuid, part.number) for uuid, part in self.instances.items()]
        return [Device(self.uuid, index), *parts]

    def lost_reading(self) -> GpuReading:
        """Return rows that say that it is lost, with its instances. Asks nothing."""
        down: list[Mapping[str, Value]] = [{"gpu_uuid": self.uuid, "up": False}]
        down += [{"gpu_uuid": uuid, "parent_uuid": self.uuid, "up": False} for uuid in self.instances]
        return GpuReading(tuple(down))

    def close(self) -> None:
        """Give the memory of the activity meters back."""
        self.instruments.close()
        for instance in self.instances.values():
            instance.close()

    def _lose(self, why: str) -> None:
        if not self.lost:
            _LOG.warning("GPU lost: %s", why)
        self._anew()
        self.lost = True

    def _anew(self) -> None:
        self.close()
        self._begin()

    def _look(self) -> bool:
        """Look for what a fresh listing may have changed: handle, MIG, GPM. Return whether there was one."""
        found, self._found = self._found, None
        if found is None:
            return False
        if found.life != self._place.life:
            self._anew()
        self._place, self._held_at = found, None
        mode = self.calls.ask(pynvml.nvmlDeviceGetMigMode, found.handle)
        if mode is not None and self.mig != (mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE):
            self.mig = not self.mig
            self._anew()
        self._measure(found.handle)
        return True

    def _measure(self, handle: object) -> None:
        buffer, before = self._buffer or GpmBuffer(), self.instances
        self._buffer = buffer
        if self.mig:
            self.instances = find_instances(self.calls, self.uuid, handle, self.instances, self.around, buffer)
        else:
            self.instances = {}
        gone = [uuid for uuid in (*self._gone, *before) if uuid not in self.instances]
        self._gone = tuple(dict.fromkeys(gone))[-_MOST_GONE:]
        if self.instruments.gpm is None:
            self.instruments.gpm = self.around.gpm(self.calls, handle, buffer)
        self.architecture = self.calls.ask(pynvml.nvmlDeviceGetArchitecture, handle)

    def _reading(self, looked: bool) -> GpuReading:
        handle, before = self._place.handle, self.calls.answered
        row: dict[str, Value] = {"gpu_uuid": self.uuid, **self.instruments.row(handle, self.seconds)}
        row["up"] = True if self.calls.answered > before else None  # silence is not a loss
        parts = [instance.read(handle, self.seconds) for instance in self.instances.values()]
        told = facts(self, self._place) if looked else []
        return GpuReading((row, *parts), self._holders(handle), tuple(told))

    def _holders(self, handle: object) -> Holding:
        """Return who holds it, as often as that is wanted: listing processes is the dearest question of a beat."""
        now, asked = self.around.seconds(), self._held_at
        if asked is None or now - asked >= self.around.process_seconds - (self.seconds or 0) / 2:
            nobody = Holding(known=frozenset((self.uuid, *self._gone) if self.mig else self._gone))
            own = nobody if self.mig else self._processes.read(handle)
            parts = [instance.holding() for instance in self.instances.values()]
            self._held, self._held_at = merged_holdings((nobody, own, *parts)), now
        return self._held
