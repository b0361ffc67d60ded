"""Activity within the chip by GPM (Hopper and newer), which needs no privilege and disturbs no profiler."""

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import pynvml

from agent.gpu.nvidia.calls import Calls
from agent.wire.units import MIB

_GRAPHICS_ACTIVE = pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL
_SM_ACTIVE = pynvml.NVML_GPM_METRIC_SM_UTIL
_SM_OCCUPANCY = pynvml.NVML_GPM_METRIC_SM_OCCUPANCY
_TENSOR_ACTIVE = pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL
_DRAM_ACTIVE = pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL
_FP64_ACTIVE = pynvml.NVML_GPM_METRIC_FP64_UTIL
_FP32_ACTIVE = pynvml.NVML_GPM_METRIC_FP32_UTIL
_FP16_ACTIVE = pynvml.NVML_GPM_METRIC_FP16_UTIL
_PCIE_TRANSMIT = pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC
_PCIE_RECEIVE = pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC
_NVLINK_RECEIVE = pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC
_NVLINK_TRANSMIT = pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC

RATIOS = {
    _GRAPHICS_ACTIVE: "graphics_active_ratio",
    _SM_ACTIVE: "sm_active_ratio",
    _SM_OCCUPANCY: "sm_occupancy_ratio",
    _TENSOR_ACTIVE: "tensor_active_ratio",
    _DRAM_ACTIVE: "dram_active_ratio",
    _FP64_ACTIVE: "fp64_active_ratio",
    _FP32_ACTIVE: "fp32_active_ratio",
    _FP16_ACTIVE: "fp16_active_ratio",
}
RATES = {
    _PCIE_RECEIVE: "pcie_receive_bytes",
    _PCIE_TRANSMIT: "pcie_transmit_bytes",
    _NVLINK_RECEIVE: "nvlink_receive_bytes",
    _NVLINK_TRANSMIT: "nvlink_transmit_bytes",
}
_SHORTEST_SECONDS = 0.1  # nvml.h: closer samples give no metrics
_FASTEST = 2**24  # MiB/s, 16 TiB/s: more than any link there is is no measurement
_NOISE = 1.02  # a saturated pipe reads a little over 100 %; more than this is no measurement

# nvmlGpmMetric_t: metric, return code, value, and three pointers to names.
_METRIC = struct.Struct("=Iid24x")


def decoded(metrics: bytes | memoryview, count: int) -> dict[int, float]:
    """Return the first `count` metrics by their number, in the driver's units; those without a value are left out."""
    answers = _METRIC.iter_unpack(metrics[: count * _METRIC.size])
    return {metric: value for metric, code, value in answers if code == pynvml.NVML_SUCCESS and math.isfinite(value)}


class GpmBuffer:
    """The driver's 19 kB question, allocated once for a GPU and its instances, which are never asked at once."""

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
        return decoded(memoryview(self._question.metrics).cast("B"), self._question.numMetrics)


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
        self.tells: frozenset[str] = frozenset()  # the columns of the last answer

    def read(self, handle: object, interval_seconds: float | None) -> Mapping[str, float | int]:
        """Return the contract's columns for the interval; empty at the first call and where the last was too near.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        now, since = self._seconds(), self._taken
        if since is not None and now - since < _SHORTEST_SECONDS:
            return {}
        self._earlier, self._later = self._later, self._earlier
        taken = self._take(handle)
        self._taken = None if taken is None else now
        if since is None or taken is None:
            return {}
        metrics = self._buffer.between(self._calls, self._earlier, self._later)
        self.tells = frozenset(name for metric, name in (RATIOS | RATES).items() if metric in metrics)
        return in_base_units(metrics, interval_seconds)

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
        **{name: min(ratio, 1.0) for name, ratio in ratios.items() if 0 <= ratio <= _NOISE},
        **{name: round(rate * MIB * (seconds or 0)) for name, rate in rates.items() if 0 <= rate <= _FASTEST},
    }
