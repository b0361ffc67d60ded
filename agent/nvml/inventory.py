"""A GPU as found: model, memory, limits, links and where it sits; told when first seen and when it changes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pynvml

from agent.errors import SourceLostError
from agent.nvml.gpu import Gpu
from agent.nvml.instruments import HERTZ_PER_MEGAHERTZ, MILLIWATTS_PER_WATT
from agent.nvml.memory import memory_total_bytes
from agent.nvml.mig import Instance
from agent.nvml.sku import sku
from agent.source import Row, Value
from agent.topology import numa_node, sysfs_bus_id

# An idle link trains down and up again: told with the rest, but no reason by itself to tell the rest again.
RESTLESS = frozenset(("pcie_generation",))


class Inventory:
    """Remembers what was last told of each GPU and MIG instance, by UUID."""

    def __init__(self, sysfs: Path, driver: str | None) -> None:
        self._sysfs = sysfs
        self._driver = driver
        self._told: dict[str, Row] = {}

    def changes(self, gpus: Sequence[Gpu]) -> list[Row]:
        """Return the rows that are new or differ from what was told; a lost GPU stays as it was told.

        Raises:
            DriverChangedError: the driver was replaced under this process.
        """
        rows = [row for gpu in gpus if not gpu.lost for row in self._rows(gpu, gpus)]
        changed = [row for row in rows if _lasting(row) != _lasting(self._told.get(str(row["gpu_uuid"]), {}))]
        self._told.update((str(row["gpu_uuid"]), row) for row in changed)
        return changed

    def _rows(self, gpu: Gpu, gpus: Sequence[Gpu]) -> list[Row]:
        try:
            whole = self._whole(gpu, gpus)
            return [whole, *(self._part(instance, whole) for instance in gpu.instances.values())]
        except SourceLostError:  # its own reading says so in a moment
            return []

    def _whole(self, gpu: Gpu, gpus: Sequence[Gpu]) -> Mapping[str, Value]:
        ask, handle = gpu.calls.ask, gpu.handle
        memory_bytes = memory_total_bytes(gpu.calls, handle)
        name = ask(pynvml.nvmlDeviceGetName, handle)
        limit = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
        clock = ask(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM)
        return {
            "gpu_uuid": gpu.uuid,
            "gpu_index": gpu.index,
            "sku": None if name is None else sku(name, memory_bytes),
            "memory_bytes": memory_bytes,
            "mig_slices_max": ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) if gpu.mig else None,
            "power_limit_watts": None if limit is None else limit / MILLIWATTS_PER_WATT,
            "sm_clock_max_hertz": None if clock is None else float(clock * HERTZ_PER_MEGAHERTZ),
            "nvlink_peers": _nvlink_peers(gpu, gpus),
            "driver_version": self._driver,
            **self._place(gpu),
        }

    def _place(self, gpu: Gpu) -> Mapping[str, Value]:
        ask, handle = gpu.calls.ask, gpu.handle
        pci = ask(pynvml.nvmlDeviceGetPciInfo_v3, handle)
        bus_id = None if pci is None else sysfs_bus_id(pci.busId)
        return {
            "pci_bus_id": bus_id,
            "numa_node": None if bus_id is None else numa_node(self._sysfs, bus_id),
            "pcie_generation": ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            "pcie_generation_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            "pcie_width": ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            "pcie_width_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        }

    def _part(self, instance: Instance, whole: Mapping[str, Value]) -> Mapping[str, Value]:
        """A MIG instance is priced as a part of its GPU: same SKU, its own slices and memory."""
        attributes = instance.calls.ask(pynvml.nvmlDeviceGetAttributes_v2, instance.handle)
        return {
            "gpu_uuid": instance.uuid,
            "parent_uuid": whole["gpu_uuid"],
            "memory_bytes": memory_total_bytes(instance.calls, instance.handle),
            "mig_slices": None if attributes is None else attributes.computeInstanceSliceCount,
            **{name: whole[name] for name in ("gpu_index", "sku", "mig_slices_max", "numa_node", "driver_version")},
        }


def _lasting(row: Mapping[str, Value]) -> Mapping[str, Value]:
    return {name: value for name, value in row.items() if name not in RESTLESS}


def _nvlink_peers(gpu: Gpu, gpus: Sequence[Gpu]) -> int | None:
    """Return how many GPUs it reaches by NVLink, directly or through a switch; None where the driver does not say."""
    others = [other.handle for other in gpus if other is not gpu and not other.lost]
    answers = [
        gpu.calls.ask(pynvml.nvmlDeviceGetP2PStatus, gpu.handle, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
        for other in others
    ]
    known = [answer for answer in answers if answer is not None]
    return sum(answer == pynvml.NVML_P2P_STATUS_OK for answer in known) if known or not others else None
