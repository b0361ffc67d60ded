"""The GPUs of a host under all the names they go by, and which processes hold them as the driver tells it."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.procfs import text

# The GPUs that NVIDIA's kernel driver has bound, as it shows them to every user; also one too ill to be listed.
_GPUS_MAX = 128
_PLACE = "driver/nvidia/gpus"  # below /proc

_UUID = re.compile(r"^GPU UUID:\s+(GPU-[0-9A-Za-z-]+)\s*$", re.MULTILINE)  # question marks until somebody asked for it
FULL_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])")
_MINOR = re.compile(r"^Device Minor:\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class KernelsGpu:
    """One GPU. `minor` is the number of its device file, /dev/nvidia<minor>; None is what the driver does not say."""

    bus_id: str
    uuid: str | None
    minor: int | None


def kernels_gpus(proc: Path) -> list[KernelsGpu]:
    """Return the GPUs of /proc/driver/nvidia/gpus/<bus id>/information, in the order of their places; none without."""
    try:
        files = sorted((proc / _PLACE).glob("*/information"))[:_GPUS_MAX]
    except OSError:  # the driver went away while it was listed
        return []
    return [_gpu(file) for file in files]


def _gpu(information: Path) -> KernelsGpu:
    content = text(information) or ""
    uuid, minor = _UUID.search(content), _MINOR.search(content)
    return KernelsGpu(information.parent.name, uuid[1] if uuid else None, int(minor[1]) if minor else None)


# How schedulers and files name a GPU: by UUID, by the driver's index, by its device file, by GPU instance.
@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or MIG instance that the driver lists. `index` of an instance is that of its GPU."""

    uuid: str
    index: int | None  # the driver's: the order of the PCI bus
    parent_uuid: str | None = None
    instance: int | None = None  # the driver's number of the GPU instance that a MIG instance lies in
    minor: int | None = None  # of the device file, as the driver says it


class SchedulerNumbers:
    """What the numbers mean by which this host's scheduler calls its GPUs.

    Slurm's before 20.11 are those of device files, since then positions in its own list, which is in the order of
    gres.conf or of the PCI bus; prologs hand them on. Where the driver's index and the device file of a number are one
    GPU, it is that GPU. Where they are not, a job tells which is meant: its numbers, and the GPUs on which the driver
    shows its processes. Until then, and where jobs contradict each other, such a number names nothing.
    """

    def __init__(self) -> None:
        self.refused: set[int] = set()  # numbers of several meanings that were asked for, and named nothing
        self._meant: set[Literal["index", "minor"]] = set()

    @property
    def meaning(self) -> Literal["index", "minor"] | None:
        """What the jobs of this host have shown so far; None where they have shown nothing, or both."""
        return next(iter(self._meant)) if len(self._meant) == 1 else None

    def learn(self, numbers: Iterable[int], held: Set[str], devices: "Devices") -> None:
        """Take from a job of these numbers whose processes hold these GPUs what its numbers mean."""
        wanted = list(numbers)
        fits = {
            "index": held <= {devices.by_index(each) for each in wanted},
            "minor": held <= {devices.by_minor(each) for each in wanted},
        }
        if held and fits["index"] != fits["minor"]:
            self._meant.add("index" if fits["index"] else "minor")

    def coverage(self) -> list[str]:
        """Return which numbers name no GPU, in words."""
        if not self.refused:
            return []
        numbers = ", ".join(map(str, sorted(self.refused)))
        return [
            f"GPU numbers of the scheduler name no GPU ({numbers}): driver index and device file are different GPUs, "
            "and nothing tells which is meant; let the prolog write UUIDs (docs/slurm.md)"
        ]


class Devices:
    """The GPUs of a host under all the names they go by. Nothing is guessed: what names no GPU is None.

    A number is one of a space: the driver's index, the number of a device file, or the scheduler's own. `minors` are
    the numbers of device files by UUID as the kernel shows them, before what the driver says of them.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        minors: Mapping[str, int] | None = None,
        numbers: SchedulerNumbers | None = None,
    ) -> None:
        self._devices = devices
        self._minors = {one.uuid: one.minor for one in devices if one.minor is not None} | dict(minors or {})
        self._numbers = numbers or SchedulerNumbers()

    @property
    def whole(self) -> list[str]:
        """The UUIDs of the GPUs that are not divided, in the driver's order."""
        divided = {device.parent_uuid for device in self._devices}
        found = [one for one in self._devices if one.parent_uuid is None and one.uuid not in divided]
        return [one.uuid for one in sorted(found, key=lambda one: (one.index is None, one.index or 0))]

    def by_uuid(self, name: str) -> str | None:
        """Return the UUID that a name in the form of one means, also a beginning of it as CUDA takes; None where it
        is none of this host's. A whole one that the driver does not list now is one all the same.
        """
        uuids = [one.uuid for one in self._devices if one.uuid.startswith(name)]
        if name in uuids or FULL_UUID.fullmatch(name) or not self._devices:
            return name
        return uuids[0] if len(uuids) == 1 else None

    def beginning(self, name: str) -> str | None:
        """Return the longest UUID that the driver lists and this name begins with, whatever follows but more of it."""
        uuids = (one.uuid for one in self._devices if name.startswith(one.uuid))
        return max((uuid for uuid in uuids if not name[len(uuid) : len(uuid) + 1].isalnum()), key=len, default=None)

    def by_index(self, index: int) -> str | None:
        """Return the UUID of the GPU with the driver's index."""
        return self._one([one.uuid for one in self._devices if one.parent_uuid is None and one.index == index], None)

    def by_minor(self, minor: int, instance: int | None = None) -> str | None:
        """Return the UUID of the GPU whose device file is /dev/nvidia<minor>, or of that GPU's instance."""
        return self._one([uuid for uuid, number in self._minors.items() if number == minor], instance)

    def by_scheduler(self, number: int, instance: int | None = None) -> str | None:
        """Return the UUID of the GPU that the scheduler of this host calls so, or of that GPU's instance."""
        index, minor = self.by_index(number), self.by_minor(number)
        found = {"index": index, "minor": minor, None: index if index == minor else None}[self._numbers.meaning]
        if found is None and index != minor:
            self._numbers.refused.add(number)
        return self._one([found] if found else [], instance)

    def instance_of(self, parent_uuid: str, instance: int) -> str | None:
        """Return the UUID of a GPU's MIG instance by the number of its GPU instance."""
        parts = [one for one in self._devices if (one.parent_uuid, one.instance) == (parent_uuid, instance)]
        return parts[0].uuid if len(parts) == 1 else None  # several compute instances cannot be told apart

    def _one(self, uuids: Sequence[str], instance: int | None) -> str | None:
        if len(uuids) != 1:
            return None
        return uuids[0] if instance is None else self.instance_of(uuids[0], instance)


def minors(proc: Path) -> dict[str, int]:
    """Return the number of each GPU's device file by UUID, or nothing where the driver does not show it."""
    return {one.uuid: one.minor for one in kernels_gpus(proc) if one.uuid is not None and one.minor is not None}


# Processes on GPUs, as the driver tells them and as the room of processes takes them; and who holds what.
@dataclass(frozen=True, slots=True)
class GpuProcess:
    """One process on one GPU or MIG instance. None means that the driver did not say; it never stands for 0.

    `sm_utilization_ratio` is its share of SM time since the last reading. The driver lists only processes that were
    busy: one it leaves out while it lists others is at 0; where it lists none, or lists processes that it does not
    name as holders (another PID namespace, MPS), nothing can be told apart and all are None.
    """

    gpu_uuid: str
    pid: int  # as the host numbers it
    memory_used_bytes: int | None = None
    sm_utilization_ratio: float | None = None
    is_listed: bool = True  # False: the list cannot be read now, and the figures are those of the last one


@dataclass(frozen=True, slots=True)
class Holding:
    """Who holds the GPUs of a host, as far as the driver says it.

    `known` are the GPUs and MIG instances whose list was read whole. Of any other nobody knows who else holds it: a
    process that is not told of it has not given it back.
    """

    processes: tuple[GpuProcess, ...] = ()
    known: frozenset[str] = frozenset()

    def unanswered(self, before: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
        """Return those of `before` of whom this says neither that they hold their GPU nor that they do not."""
        told = {(one.gpu_uuid, one.pid) for one in self.processes}
        return tuple(one for one in before if one.gpu_uuid not in self.known and (one.gpu_uuid, one.pid) not in told)


NOTHING_SAID = Holding()


def merged_holdings(parts: Iterable[Holding]) -> Holding:
    """Return what several parts of a host say as one."""
    told = list(parts)
    return Holding(
        tuple(process for one in told for process in one.processes), frozenset().union(*(one.known for one in told))
    )
