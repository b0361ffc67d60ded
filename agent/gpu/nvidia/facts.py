"""A GPU as found: model, memory, limits, links and where it sits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pynvml

from agent.errors import SourceLostError
from agent.gpu.nvidia.architecture import architecture_name
from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.context import NvmlContext
from agent.gpu.nvidia.memory import memory_total_bytes
from agent.gpu.nvidia.mig import Instance
from agent.gpu.nvidia.units import HERTZ_PER_MEGAHERTZ, MILLIWATTS_PER_WATT
from agent.source import Row, Value
from agent.sources.topology import numa_node, sysfs_bus_id
from agent.wire.sku import sku


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """How the driver lists a GPU now: its index, its handle, and the handles of the others."""

    index: int
    handle: Any
    others: tuple[Any, ...]
    life: int = 0  # of the driver: what it refused in another one may be answered in this


class Described(Protocol):
    """A GPU, as far as its facts are asked for (gpu.py)."""

    uuid: str
    mig: bool
    architecture: int | None  # nvml.h, NVML_DEVICE_ARCH_*

    @property
    def calls(self) -> Calls:
        """Whom to ask."""

    @property
    def around(self) -> NvmlContext:
        """What all GPUs of the host share."""

    @property
    def instances(self) -> Mapping[str, Instance]:
        """Its MIG instances, by UUID."""


def facts(gpu: Described, found: ListedGpu) -> list[Row]:
    """Return the inventory rows of a GPU and its MIG instances.

    Raises:
        SourceLostError: the GPU is gone until it is reset.
        DriverChangedError: the driver was replaced under this process.
    """
    whole = _whole(gpu, found)
    return [whole, *(_part(instance, whole) for instance in gpu.instances.values())]


def _whole(gpu: Described, found: ListedGpu) -> Mapping[str, Value]:
    ask, handle = gpu.calls.ask, found.handle
    memory_bytes = memory_total_bytes(gpu.calls, handle)
    name = ask(pynvml.nvmlDeviceGetName, handle)
    limit = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    clock = ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM)
    return {
        "gpu_uuid": gpu.uuid,
        "gpu_index": found.index,
        "sku": None if name is None else sku(name, memory_bytes),
        "architecture": architecture_name(gpu.architecture),
        "memory_bytes": memory_bytes,
        "mig_slices_max": ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) if gpu.mig else None,
        "power_limit_watts": None if limit is None else limit / MILLIWATTS_PER_WATT,
        "sm_clock_max_hertz": None if clock is None else float(clock * HERTZ_PER_MEGAHERTZ),
        "nvlink_peers": _nvlink_peers(gpu, found),
        "driver_version": gpu.around.driver,
        **_place(gpu, handle),
    }


def _place(gpu: Described, handle: object) -> Mapping[str, Value]:
    ask = gpu.calls.ask
    pci = ask(pynvml.nvmlDeviceGetPciInfo_v3, handle)
    bus_id = None if pci is None else sysfs_bus_id(pci.busId)
    return {
        "pci_bus_id": bus_id,
        "numa_node": None if bus_id is None else numa_node(gpu.around.sysfs, bus_id),
        "pcie_generation": ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
        "pcie_generation_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "pcie_width": ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        "pcie_width_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
    }


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


def _nvlink_peers(gpu: Described, found: ListedGpu) -> int | None:
    """Return how many GPUs it reaches by NVLink, directly or through a switch; None where it is not known of each."""
    question, kind = pynvml.nvmlDeviceGetP2PStatus, pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    try:
        answers = [gpu.calls.ask(question, found.handle, other, kind) for other in found.others]
    except SourceLostError:  # it may be the other that is lost; this one's own questions tell whether it is
        return None
    return None if None in answers else sum(answer == pynvml.NVML_P2P_STATUS_OK for answer in answers)
