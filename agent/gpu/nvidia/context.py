"""What all GPUs of a host share: clocks, counters and the slow threads."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pynvml

from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.energy import EnergyBook
from agent.gpu.nvidia.gpm import Gpm, GpmBuffer
from agent.gpu.nvidia.pcie import PcieWatch
from agent.gpu.nvidia.xid import XidWatch


@dataclass(frozen=True, slots=True)
class NvmlContext:
    """Made once for a source and handed to each of its GPUs. `failures` counts refused questions by their name."""

    failures: Counter[str]
    seconds: Callable[[], float]  # monotonic
    wall_seconds: Callable[[], float]
    pcie: PcieWatch
    xid: XidWatch
    energy: EnergyBook
    sysfs: Path
    driver: str | None  # its version
    process_seconds: float  # between two lists of processes

    def gpm(self, calls: Calls, handle: object, buffer: GpmBuffer, instance: int | None = None) -> Gpm | None:
        """Return the activity meter of a GPU, or of a GPU instance by its number; None where the GPU has none.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        support = calls.ask(pynvml.nvmlGpmQueryDeviceSupport, handle)
        if support is None or not support.isSupportedDevice:
            return None
        earlier, later = calls.ask(pynvml.nvmlGpmSampleAlloc), calls.ask(pynvml.nvmlGpmSampleAlloc)
        if earlier is None or later is None:
            return None
        return Gpm(calls, instance, (earlier, later), buffer, self.seconds)
