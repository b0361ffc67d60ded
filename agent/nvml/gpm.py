"""Activity within the chip by GPM (Hopper and newer), which needs no privilege and disturbs no profiler."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pynvml

from agent.nvml.calls import Calls

SM_ACTIVE = pynvml.NVML_GPM_METRIC_SM_UTIL
SM_OCCUPANCY = pynvml.NVML_GPM_METRIC_SM_OCCUPANCY
TENSOR_ACTIVE = pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL
DRAM_ACTIVE = pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL
PCIE_TRANSMIT = pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC
PCIE_RECEIVE = pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC
NVLINK_RECEIVE = pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC
NVLINK_TRANSMIT = pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC

RATIOS = {
    SM_ACTIVE: "sm_active_ratio",
    SM_OCCUPANCY: "sm_occupancy_ratio",
    TENSOR_ACTIVE: "tensor_active_ratio",
    DRAM_ACTIVE: "dram_active_ratio",
}
RATES = {
    PCIE_RECEIVE: "pcie_receive_bytes",
    PCIE_TRANSMIT: "pcie_transmit_bytes",
    NVLINK_RECEIVE: "nvlink_receive_bytes",
    NVLINK_TRANSMIT: "nvlink_transmit_bytes",
}
BYTES_PER_MIB = 2**20
SHORTEST_SECONDS = 0.1  # nvml.h: closer samples give no metrics
NOISE = 1.02  # a saturated pipe reads a little over 100 %; more than this is no measurement


class GpmBuffer:
    """The driver's 19 kB question, allocated once and filled in again for each GPU."""

    def __init__(self) -> None:
        self._question: Any = pynvml.c_nvmlGpmMetricsGet_t()
        self._question.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._question.numMetrics = len(RATIOS) + len(RATES)
        for position, metric in enumerate((*RATIOS, *RATES)):
            self._question.metrics[position].metricId = metric

    def between(self, calls: Calls, earlier: object, later: object) -> dict[int, float]:
        """Return what the driver makes of two samples, in its units (percent, MiB/s); absent where it says nothing."""
        self._question.sample1, self._question.sample2 = earlier, later
        if calls.ask(pynvml.nvmlGpmMetricsGet, self._question) is None:
            return {}
        answers = self._question.metrics[: self._question.numMetrics]
        return {
            answer.metricId: answer.value
            for answer in answers
            if answer.nvmlReturn == pynvml.NVML_SUCCESS and math.isfinite(answer.value)
        }


class Gpm:
    """Two samples of one GPU or GPU instance, the earlier and the later, which change places at every beat."""

    def __init__(
        self,
        calls: Calls,
        instance: int | None,  # the number of the GPU instance that is measured, None for the whole GPU
        samples: tuple[Any, Any],
        buffer: GpmBuffer,
        seconds: Callable[[], float],
    ) -> None:
        self._calls = calls
        self._instance = instance
        self._buffer = buffer
        self._seconds = seconds
        self._earlier, self._later = samples
        self._taken: float | None = None

    def read(self, handle: object, interval_seconds: float | None) -> Mapping[str, float | int]:
        """Return the contract's columns for the interval; empty at the first call and where the last was too near.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        now, since = self._seconds(), self._taken
        if since is not None and now - since < SHORTEST_SECONDS:
            return {}
        self._earlier, self._later = self._later, self._earlier
        taken = self._take(handle)
        self._taken = None if taken is None else now
        if since is None or taken is None:
            return {}
        return in_base_units(self._buffer.between(self._calls, self._earlier, self._later), interval_seconds)

    def _take(self, handle: object) -> object | None:
        if self._instance is None:
            return self._calls.ask(pynvml.nvmlGpmSampleGet, handle, self._later)
        return self._calls.ask(pynvml.nvmlGpmMigSampleGet, handle, self._instance, self._later)

    def close(self) -> None:
        """Give the driver its two samples back."""
        for sample in (self._earlier, self._later):
            self._calls.ask(pynvml.nvmlGpmSampleFree, sample)


def in_base_units(metrics: Mapping[int, float], seconds: float | None) -> dict[str, float | int]:
    """Return percents as ratios, and MiB/s over an interval of `seconds` as bytes; the implausible is left out."""
    ratios = {RATIOS[metric]: value / 100 for metric, value in metrics.items() if metric in RATIOS}
    rates = {RATES[metric]: value for metric, value in metrics.items() if metric in RATES and seconds}
    return {
        **{name: min(ratio, 1.0) for name, ratio in ratios.items() if 0 <= ratio <= NOISE},
        **{name: round(rate * BYTES_PER_MIB * (seconds or 0)) for name, rate in rates.items() if rate >= 0},
    }
