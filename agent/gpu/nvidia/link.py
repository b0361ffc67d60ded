"""The PCIe link of one GPU: generation and width, now and at most."""

from collections.abc import Mapping

import pynvml

from agent.gpu.nvidia.calls import Calls
from agent.source import Value


class PcieLink:
    """Generation and width, asked for now and then, and again when the GPU begins or ceases to work.

    An idle link trains down to a lower generation to save power and up again under load: a generation below the most
    is a fact only while the GPU works, so that one read while idle must not be repeated then. A width is always one.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._busy = False
        self._most: Mapping[str, Value] = {}
        self._now: Mapping[str, Value] = {}

    def look(self, handle: object) -> None:
        """Ask the driver; exceptions as `read`."""
        ask = self._calls.ask
        self._most = {
            "pcie_generation_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle),
            "pcie_width_max": ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        }
        self._look_now(handle)

    def read(self, handle: object, utilization: float | None) -> Mapping[str, Value]:
        """Return the columns of the link.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        busy = bool(utilization)
        if busy != self._busy:
            self._busy = busy
            self._look_now(handle)
        return {**self._most, **self._now}

    def _look_now(self, handle: object) -> None:
        ask = self._calls.ask
        self._now = {
            "pcie_generation": ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, handle),
            "pcie_width": ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        }
