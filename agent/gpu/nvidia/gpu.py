"""One GPU for as long as the agent lives: listed, answering, lost, back, and cut into MIG instances or not."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pynvml

from agent.attribution.devices import NOTHING_SAID, Device, Holding, merged_holdings
from agent.errors import SourceLostError
from agent.gpu.nvidia.activity import UTILIZATION_RING, Gpm, GpmBuffer
from agent.gpu.nvidia.calls import HERTZ_PER_MEGAHERTZ, MILLIWATTS_PER_WATT, Calls
from agent.gpu.nvidia.instruments import Instruments, NvmlContext, Processes, memory, memory_info_v2, memory_total_bytes
from agent.gpu.nvidia.power import EnergyMeter
from agent.source import Row, Supported, Value
from agent.sources.topology import numa_node, sysfs_bus_id
from agent.wire.sku import sku

# nvml.h, NVML_DEVICE_ARCH_*
_NAMES: Mapping[int, str] = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_HOPPER = 9  # the first with GPM
_UNKNOWN = 0xFFFFFFFF


def _architecture_name(number: int | None) -> str | None:
    """Return the name of an architecture; one that is newer than we are keeps its number."""
    if number is None or number == _UNKNOWN:
        return None
    return _NAMES.get(number, f"architecture {number}")


# MIG instances: parts of a GPU that the driver names and measures by themselves, as far as it can.
_MOST_INSTANCES = 16  # of one GPU; the largest there are have 7


class Instance:
    """One MIG instance. The driver has no utilization for it; GPM measures the GPU instance it lies in."""

    def __init__(self, uuid: str, parent_uuid: str, handle: object, context: NvmlContext) -> None:
        self.uuid = uuid
        self.handle: Any = handle
        self._parent_uuid = parent_uuid
        self.calls = Calls(uuid, context.failures, context.seconds)
        self._processes = Processes(uuid, self.calls, context.proc)
        self._gpm: Gpm | None = None
        self.number: int | None = None  # of the GPU instance that it lies in

    def measure(self, parent: object, context: NvmlContext, buffer: GpmBuffer) -> None:
        """Start the activity meter where the chip of this `parent` has one; exceptions as `Calls.ask`."""
        self.number = number = self.calls.ask(pynvml.nvmlDeviceGetGpuInstanceId, self.handle)
        if number is not None and self._gpm is None:
            self._gpm = context.gpm(self.calls, parent, buffer, number)

    def read(self, parent: object, seconds: float | None) -> Mapping[str, Value]:
        """Return the instance's row for the `seconds` since the last call, None where it is the first."""
        before = self.calls.answered
        row: dict[str, Value] = {"gpu_uuid": self.uuid, "parent_uuid": self._parent_uuid}
        row.update(memory(self.calls, self.handle))
        row.update(self._gpm.read(parent, seconds) if self._gpm else {})
        row["up"] = True if self.calls.answered > before else None
        return row

    def holding(self) -> Holding:
        """Return who holds the instance now; exceptions as `Calls.ask`."""
        return self._processes.read(self.handle)

    def close(self) -> None:
        """Give the activity meter's memory back."""
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None


def _find_instances(
    calls: Calls,
    parent_uuid: str,
    parent: object,
    known: Mapping[str, Instance],
    context: NvmlContext,
    buffer: GpmBuffer,
) -> dict[str, Instance]:
    """Return the instances that `parent` has now, by UUID: the known ones kept, with fresh handles, the gone closed.

    None is gone while the driver does not list all of them.
    """
    most = calls.ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, parent)
    found: dict[str, Instance] = {}
    is_whole = most is not None
    question = pynvml.nvmlDeviceGetMigDeviceHandleByIndex
    for position in range(min(most or 0, _MOST_INSTANCES)):
        handle = calls.ask(question, parent, position)
        name = f"{pynvml.nvmlDeviceGetUUID.__name__} of MIG device {position}"
        uuid = None if handle is None else calls.ask_as(name, pynvml.nvmlDeviceGetUUID, handle)
        if uuid is None:
            is_whole = is_whole and handle is None and calls.refusal(question.__name__) is None
        else:
            found[uuid] = known.get(uuid) or Instance(uuid, parent_uuid, handle, context)
            found[uuid].handle = handle
            found[uuid].measure(parent, context, buffer)
    if not is_whole:
        return {**known, **found}
    for uuid in known.keys() - found.keys():
        known[uuid].close()
    return found


# A GPU as found: model, memory, limits, links and where it sits.
@dataclass(frozen=True, slots=True)
class ListedGpu:
    """How the driver lists a GPU now: its index, its handle, and the handles of the others."""

    index: int
    handle: Any
    others: tuple[Any, ...]
    life: int = 0  # of the driver: what it refused in another one may be answered in this


def facts(gpu: "Gpu", found: ListedGpu) -> list[Row]:
    """Return the inventory rows of a GPU and its MIG instances; exceptions as `Calls.ask`."""
    whole = _whole(gpu, found)
    return [whole, *(_part(instance, whole) for instance in gpu.instances.values())]


def _whole(gpu: "Gpu", found: ListedGpu) -> Mapping[str, Value]:
    ask, handle = gpu.calls.ask, found.handle
    memory_bytes = memory_total_bytes(gpu.calls, handle)
    name = ask(pynvml.nvmlDeviceGetName, handle)
    limit = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    clock = ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM)
    return {
        "gpu_uuid": gpu.uuid,
        "gpu_index": found.index,
        "sku": None if name is None else sku(name, memory_bytes),
        "architecture": _architecture_name(gpu.architecture),
        "memory_bytes": memory_bytes,
        "mig_slices_max": ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) if gpu.mig else None,
        "power_limit_watts": None if limit is None else limit / MILLIWATTS_PER_WATT,
        "sm_clock_max_hertz": None if clock is None else float(clock * HERTZ_PER_MEGAHERTZ),
        "nvlink_peers": _nvlink_peers(gpu, found),
        "driver_version": gpu.context.driver,
        **_place(gpu, handle),
    }


def _place(gpu: "Gpu", handle: object) -> Mapping[str, Value]:
    ask = gpu.calls.ask
    bus_id = gpu.calls.ask_as(pynvml.nvmlDeviceGetPciInfo_v3.__name__, _bus_id, handle)
    return {
        "pci_bus_id": bus_id,
        "numa_node": None if bus_id is None else numa_node(gpu.context.sysfs, bus_id),
        "pcie_generation": ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        "pcie_generation_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "pcie_width": ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        "pcie_width_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
    }


def _bus_id(handle: object) -> str | None:
    """Return a GPU's PCI address as the kernel writes it; the binding decodes it only when it is looked at."""
    return sysfs_bus_id(pynvml.nvmlDeviceGetPciInfo_v3(handle).busId)


def _part(instance: Instance, whole: Mapping[str, Value]) -> Mapping[str, Value]:
    """A MIG instance is priced as a part of its GPU: same SKU, its own slices and memory."""
    attributes = instance.calls.ask(pynvml.nvmlDeviceGetAttributes_v2, instance.handle)
    shared = ("gpu_index", "sku", "architecture", "mig_slices_max", "numa_node", "driver_version")
    return {
        "gpu_uuid": instance.uuid,
        "parent_uuid": whole["gpu_uuid"],
        "memory_bytes": memory_total_bytes(instance.calls, instance.handle),
        "mig_slices": None if attributes is None else attributes.computeInstanceSliceCount,
        **{name: whole[name] for name in shared},
    }


def _nvlink_peers(gpu: "Gpu", found: ListedGpu) -> int | None:
    """Return how many GPUs it reaches by NVLink, directly or through a switch; None where it is not known of each."""
    question, kind = pynvml.nvmlDeviceGetP2PStatus, pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    try:
        answers = [gpu.calls.ask(question, found.handle, other, kind) for other in found.others]
    except SourceLostError:  # it may be the other that is lost; this one's own questions tell whether it is
        return None
    return None if None in answers else sum(answer == pynvml.NVML_P2P_STATUS_OK for answer in answers)


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

    def __init__(self, uuid: str, context: NvmlContext) -> None:
        self.uuid = uuid
        self.context = context
        self.lost = False
        self.absent = False  # not even listed: there is nobody to ask
        self.mig = False
        self.architecture: int | None = None  # nvml.h, NVML_DEVICE_ARCH_*
        self.instances: dict[str, Instance] = {}
        self.seconds: float | None = None  # since the last reading, None where it is the first
        self.energy = EnergyMeter(context.wall_seconds, context.energy.known(uuid))
        self._place = ListedGpu(0, None, ())
        self._minor: int | None = None  # of its device file
        self._found: ListedGpu | None = None  # what is not yet looked at
        self._gone: tuple[str, ...] = ()  # instances that were deleted
        self._buffer: GpmBuffer | None = None
        self._begin()

    def _begin(self) -> None:
        self.calls = Calls(self.uuid, self.context.failures, self.context.seconds)
        self.instruments = Instruments(self.uuid, self.calls, self.energy, self.context)
        self.processes = Processes(self.uuid, self.calls, self.context.proc)
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
        """Note that the driver no longer lists this GPU; the registry, which misses it, says so in the log."""
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
            _LOG.warning("GPU back: %s is responding again", self.uuid)
            self.lost = False
        return self.lost_reading() if self.lost else reading

    def devices(self) -> list[Device]:
        """Return the names of this GPU and its MIG instances. Asks nothing."""
        index = self._place.index
        parts = [Device(uuid, index, self.uuid, part.number) for uuid, part in self.instances.items()]
        return [Device(self.uuid, index, minor=self._minor), *parts]

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
            self.instances = _find_instances(self.calls, self.uuid, handle, self.instances, self.context, buffer)
        else:
            self.instances = {}
        gone = [uuid for uuid in (*self._gone, *before) if uuid not in self.instances]
        self._gone = tuple(dict.fromkeys(gone))[-_MOST_GONE:]
        if self.instruments.gpm is None:
            self.instruments.gpm = self.context.gpm(self.calls, handle, buffer)
        self.architecture = self.calls.ask(pynvml.nvmlDeviceGetArchitecture, handle)
        self._minor = self.calls.ask(pynvml.nvmlDeviceGetMinorNumber, handle)

    def _reading(self, looked: bool) -> GpuReading:
        handle, before = self._place.handle, self.calls.answered
        row: dict[str, Value] = {"gpu_uuid": self.uuid, **self.instruments.row(handle, self.seconds)}
        row["up"] = True if self.calls.answered > before else None  # silence is not a loss
        parts = [instance.read(handle, self.seconds) for instance in self.instances.values()]
        told = facts(self, self._place) if looked else []
        return GpuReading((row, *parts), self._holders(handle), tuple(told))

    def _holders(self, handle: object) -> Holding:
        """Return who holds it, as often as that is wanted: listing processes is the dearest question of a beat."""
        now, asked = self.context.seconds(), self._held_at
        if asked is None or now - asked >= self.context.process_seconds - (self.seconds or 0) / 2:
            nobody = Holding(known=frozenset((self.uuid, *self._gone) if self.mig else self._gone))
            own = nobody if self.mig else self.processes.read(handle)
            parts = [instance.holding() for instance in self.instances.values()]
            self._held, self._held_at = merged_holdings((nobody, own, *parts)), now
        return self._held


SUBJECTS = (
    "utilization", "memory", "power", "energy", "clocks", "throttle", "activity", "pcie", "nvlink", "xid", "ecc",
    "remapped_rows", "processes", "mig",
)  # fmt: skip
_IN_MIG_MODE = "the driver does not report it for a GPU in MIG mode; see activity"


def of_gpu(gpu: Gpu) -> tuple[Supported, ...]:
    """Return what a GPU was found to tell. Asks the driver nothing, and so is safe from any thread."""
    refusals = _refusals(gpu)
    return tuple(_one(gpu.uuid, subject, refusals[subject]) for subject in SUBJECTS)


def nothing(uuid: str, why: str) -> tuple[Supported, ...]:
    """Return that a GPU tells nothing at all now."""
    return tuple(Supported(uuid, subject, False, why) for subject in SUBJECTS)


def _one(uuid: str, subject: str, refusal: str | None) -> Supported:
    return Supported(uuid, subject, refusal is None, refusal or "")


def _refusals(gpu: Gpu) -> Mapping[str, str | None]:
    calls, of = gpu.calls, gpu.instruments
    return {
        "utilization": _all(calls.refusal(UTILIZATION_RING), calls.refusal("nvmlDeviceGetUtilizationRates"))
        and (_IN_MIG_MODE if gpu.mig else calls.refusal(UTILIZATION_RING)),
        "memory": _all(calls.refusal(memory_info_v2.__name__), calls.refusal("nvmlDeviceGetMemoryInfo")),
        "power": of.power.power_refusal,
        "energy": of.power.energy_refusal,
        "clocks": of.clocks.refusal,
        "throttle": of.throttles.refusal,
        "activity": None if of.gpm is not None else _no_gpm(gpu),
        "pcie": None if of.gpm_tells("pcie_receive_bytes") else gpu.context.pcie.refusal(gpu.uuid),
        "nvlink": None if of.gpm_tells("nvlink_receive_bytes") else of.nvlink.refusal,
        "xid": gpu.context.xid.refusal(gpu.uuid),
        "ecc": of.health.ecc_refusal,
        "remapped_rows": of.health.rows_refusal,
        "processes": None if gpu.mig else gpu.processes.refusal,
        "mig": calls.refusal(pynvml.nvmlDeviceGetMigMode.__name__),
    }


def _no_gpm(gpu: Gpu) -> str:
    if gpu.architecture is not None and gpu.architecture < _HOPPER:
        return f"GPM needs Hopper or newer; this is {_architecture_name(gpu.architecture)}"
    return gpu.calls.refusal("nvmlGpmQueryDeviceSupport") or "the driver reports no GPM for this GPU"


def _all(*refusals: str | None) -> str | None:
    """Return the first of several refusals where each is one; None where one of the ways works."""
    return refusals[0] if all(refusals) else None
