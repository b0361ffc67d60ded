"""Device memory, without the driver's own reserve where the driver can tell it apart."""

from collections.abc import Mapping

import pynvml

from agent.gpu.nvidia.calls import Calls
from agent.source import Value


def memory(calls: Calls, handle: object) -> Mapping[str, Value]:
    """Return the memory columns of a GPU or MIG instance, in bytes, and the total as `memory_bytes`.

    Drivers before 510 know only the older form, which counts the reserve as used: it is then None
    (https://github.com/wookayin/gpustat/issues/141).

    Raises:
        SourceLostError: the GPU is gone until it is reset.
        DriverChangedError: the driver was replaced under this process.
    """
    found = calls.ask(memory_info_v2, handle)
    if found is not None:
        return _columns(found.used, found.reserved)
    if calls.supports(memory_info_v2.__name__):
        return _columns(None, None)  # it failed this once: the older form would count the reserve for one beat
    found = calls.ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return _columns(None, None) if found is None else _columns(found.used, None)


def memory_total_bytes(calls: Calls, handle: object) -> int | None:
    """Return the device memory in bytes, or None where the GPU shares the host's (GB10); exceptions as `memory`."""
    found = calls.ask(memory_info_v2, handle) or calls.ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return None if found is None else int(found.total)


def memory_info_v2(handle: object) -> pynvml.c_nvmlMemory_v2_t:
    """Ask in the newer form, under a name of its own, so that a driver without it is still asked in the older."""
    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)


def _columns(used: int | None, reserved: int | None) -> Mapping[str, Value]:
    return {"memory_used_bytes": used, "memory_reserved_bytes": reserved}
