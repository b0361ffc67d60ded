"""The GPUs that NVIDIA's kernel driver has bound, as it shows them to every user; also one too ill to be listed."""

import re
from dataclasses import dataclass
from pathlib import Path

from agent.procfs import text

_GPUS_MAX = 128
_PLACE = "driver/nvidia/gpus"  # below /proc

_UUID = re.compile(r"^GPU UUID:\s+(GPU-[0-9A-Za-z-]+)\s*$", re.MULTILINE)  # question marks until somebody asked for it
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
