"""MIG instances: parts of a GPU that the driver names and measures by themselves, as far as it can."""

from collections.abc import Mapping
from typing import Any

import pynvml

from agent.attribution.gpu_process import Holding
from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.context import NvmlContext
from agent.gpu.nvidia.gpm import Gpm, GpmBuffer
from agent.gpu.nvidia.memory import memory
from agent.gpu.nvidia.processes import Processes
from agent.source import Value

_MOST_INSTANCES = 16  # of one GPU; the largest there are have 7


class Instance:
    """One MIG instance. The driver has no utilization for it; GPM measures the GPU instance it lies in."""

    def __init__(self, uuid: str, parent_uuid: str, handle: object, around: NvmlContext) -> None:
        self.uuid = uuid
        self.handle: Any = handle
        self._parent_uuid = parent_uuid
        self.calls = Calls(uuid, around.failures, around.seconds)
        self._processes = Processes(uuid, self.calls)
        self._gpm: Gpm | None = None
        self.number: int | None = None  # of the GPU instance that it lies in

    def measure(self, parent: object, around: NvmlContext, buffer: GpmBuffer) -> None:
        """Start the activity meter where the chip of this `parent` has one; exceptions as `read`."""
        self.number = number = self.calls.ask(pynvml.nvmlDeviceGetGpuInstanceId, self.handle)
        if number is not None and self._gpm is None:
            self._gpm = around.gpm(self.calls, parent, buffer, number)

    def read(self, parent: object, seconds: float | None) -> Mapping[str, Value]:
        """Return the instance's row for the `seconds` since the last call, None where it is the first.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        before = self.calls.answered
        row: dict[str, Value] = {"gpu_uuid": self.uuid, "parent_uuid": self._parent_uuid}
        row.update(memory(self.calls, self.handle))
        row.update(self._gpm.read(parent, seconds) if self._gpm else {})
        row["up"] = True if self.calls.answered > before else None
        return row

    def holding(self) -> Holding:
        """Return who holds the instance now; exceptions as `read`."""
        return self._processes.read(self.handle)

    def close(self) -> None:
        """Give the activity meter's memory back."""
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None


def find_instances(
    calls: Calls,
    parent_uuid: str,
    parent: object,
    known: Mapping[str, Instance],
    around: NvmlContext,
    buffer: GpmBuffer,
) -> dict[str, Instance]:
    """Return the instances that `parent` has now, by UUID: the known ones kept, with fresh handles, the gone closed.

    None is gone while the driver does not list all of them.

    Raises:
        SourceLostError: the GPU is gone until it is reset.
        DriverChangedError: the driver was replaced under this process.
    """
    most = calls.ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, parent)
    found: dict[str, Instance] = {}
    is_whole = most is not None
    question = pynvml.nvmlDeviceGetMigDeviceHandleByIndex
    for position in range(min(most or 0, _MOST_INSTANCES)):
        handle = calls.ask(question, parent, position)
        uuid = None if handle is None else calls.ask(pynvml.nvmlDeviceGetUUID, handle)
        if uuid is None:
            is_whole = is_whole and handle is None and calls.refusal(question.__name__) is None
        else:
            found[uuid] = known.get(uuid) or Instance(uuid, parent_uuid, handle, around)
            found[uuid].handle = handle
            found[uuid].measure(parent, around, buffer)
    if not is_whole:
        return {**known, **found}
    for uuid in known.keys() - found.keys():
        known[uuid].close()
    return found
