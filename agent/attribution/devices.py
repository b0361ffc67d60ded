"""How schedulers and files name a GPU: by UUID, by the driver's index, by its device file, by GPU instance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.attribution.kernels_gpus import kernels_gpus


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU or MIG instance that the driver lists. `index` of an instance is that of its GPU."""

    uuid: str
    index: int | None
    parent_uuid: str | None = None
    instance: int | None = None  # the driver's number of the GPU instance that a MIG instance lies in


class Devices:
    """The GPUs of a host under all the names they go by. Nothing is guessed: what names no GPU is None.

    `minors` are the numbers of the device files by UUID; where they are not known, the driver's index stands in, which
    is the same on most hosts.
    """

    def __init__(self, devices: Sequence[Device], minors: Mapping[str, int] | None = None) -> None:
        self._devices = devices
        self._minors = minors or {}

    @property
    def whole(self) -> list[str]:
        """The UUIDs of the GPUs that are not divided, in the driver's order."""
        divided = {device.parent_uuid for device in self._devices}
        found = [one for one in self._devices if one.parent_uuid is None and one.uuid not in divided]
        return [one.uuid for one in sorted(found, key=lambda one: (one.index is None, one.index or 0))]

    def by_index(self, index: int, instance: int | None = None) -> str | None:
        """Return the UUID of the GPU with the driver's index, or of that GPU's instance."""
        return self._one([one.uuid for one in self._gpus() if one.index == index], instance)

    def by_minor(self, minor: int, instance: int | None = None) -> str | None:
        """Return the UUID of the GPU whose device file is /dev/nvidia<minor>, or of that GPU's instance."""
        if not self._minors:
            return self.by_index(minor, instance)
        return self._one([uuid for uuid, number in self._minors.items() if number == minor], instance)

    def instance_of(self, parent_uuid: str, instance: int) -> str | None:
        """Return the UUID of a GPU's MIG instance by the number of its GPU instance."""
        parts = [one for one in self._devices if (one.parent_uuid, one.instance) == (parent_uuid, instance)]
        return parts[0].uuid if len(parts) == 1 else None  # several compute instances cannot be told apart

    def _gpus(self) -> list[Device]:
        return [one for one in self._devices if one.parent_uuid is None]

    def _one(self, uuids: Sequence[str], instance: int | None) -> str | None:
        if len(uuids) != 1:
            return None
        return uuids[0] if instance is None else self.instance_of(uuids[0], instance)


def minors(proc: Path) -> dict[str, int]:
    """Return the number of each GPU's device file by UUID, or nothing where the driver does not show it."""
    return {one.uuid: one.minor for one in kernels_gpus(proc) if one.uuid is not None and one.minor is not None}
