"""How busy the chip is: the driver's rings of sub-second samples, and GPM, which measures within the chip."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from agent.gpu.nvidia.calls import HERTZ_PER_MEGAHERTZ, MILLIWATTS_PER_WATT, Calls
from agent.wire.units import MIB, SECOND_US

# The driver's own rings of sub-second samples, which see the stalls and the peaks that a snapshot misses.
_LOW_PERCENT = 20
_HIGH_PERCENT = 80
_HOLE = 2 * SECOND_US  # between samples; the rings take some six a second
SHORTEST_SECONDS = 0.5  # of an interval whose extremes are asked for: in less there is hardly a sample
_SILENT_READS = 60  # after which the cursor itself is doubted
_MOST_MEGAHERTZ = 20_000
_MOST_MILLIWATTS = 100_000_000

UTILIZATION_RING = "nvmlDeviceGetSamples(utilization)"
_MEMORY_RING = "nvmlDeviceGetSamples(memory utilization)"
_POWER_RING = "nvmlDeviceGetSamples(power)"
_CLOCK_RING = "nvmlDeviceGetSamples(SM clock)"


@dataclass(frozen=True, slots=True)
class RingShares:
    """Utilization of one interval, 0 to 1; the shares are of the driver's samples, None where it gave none."""

    ratio: float | None = None
    zero_ratio: float | None = None
    low_ratio: float | None = None
    high_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """What a ring has new, in its own unit. `whole` is whether it follows the last reading without a hole."""

    values: Sequence[int] = ()
    whole: bool = False


def of_samples(samples: Samples) -> RingShares:
    """Return mean and shares of samples in percent, at least one.

    Where a part of the interval is missing the mean of the rest is still the best guess, but a share of the interval
    that says "never" or "half of the time" would be a claim.
    """
    percents, count = samples.values, len(samples.values)
    ratio = sum(percents) / count / 100
    if not samples.whole:
        return RingShares(ratio)
    return RingShares(
        ratio=ratio,
        zero_ratio=sum(percent == 0 for percent in percents) / count,
        low_ratio=sum(percent < _LOW_PERCENT for percent in percents) / count,
        high_ratio=sum(percent > _HIGH_PERCENT for percent in percents) / count,
    )


class Ring:
    """One ring of one GPU, and how far it was read. A ring spans some 100 samples or 16 s: read it more often."""

    def __init__(self, calls: Calls, name: str, kind: int, most: int) -> None:
        self._calls = calls
        self._name = name
        self._kind = kind
        self._most = most  # the largest value that is believed
        self._read_until = 0  # the driver's own time, boot or epoch: only ever compared with itself
        self._silent = 0

    def read(self, handle: object) -> Samples:
        """Return what is new since the last call; nothing where the GPU was idle or has no such ring."""
        doubted = self._silent >= _SILENT_READS
        since = 0 if doubted else self._read_until
        answer = self._calls.ask_as(self._name, pynvml.nvmlDeviceGetSamples, handle, self._kind, since)
        # Unused places of the ring bear the time 0; the driver also repeats the sample at the cursor itself.
        pairs = [(sample.timeStamp, sample.sampleValue.uiVal) for sample in (answer[1] if answer else ())]
        if doubted:
            self._begin_again(max((time for time, _ in pairs), default=0))
        return self._new(pairs)

    def _new(self, pairs: Sequence[tuple[int, int]]) -> Samples:
        last = self._read_until
        new = [pair for pair in pairs if pair[0] > last]
        if not new:
            self._silent += 1
            return Samples()
        times = [time for time, _ in new]
        self._read_until, self._silent = max(times), 0
        whole = last == 0 or min(times) - last <= _HOLE
        return Samples([value for _, value in new if value <= self._most], whole)

    def _begin_again(self, newest: int) -> None:
        """Follow a clock that was set back: nothing would be newer than the cursor until it has caught up."""
        self._silent = 0
        if newest < self._read_until:
            self._read_until = newest


class Rings:
    """The four rings of one GPU that are read: utilization, memory utilization, power and SM clock."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._utilization = Ring(calls, UTILIZATION_RING, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 100)
        self._memory = Ring(calls, _MEMORY_RING, pynvml.NVML_MEMORY_UTILIZATION_SAMPLES, 100)
        self._power = Ring(calls, _POWER_RING, pynvml.NVML_TOTAL_POWER_SAMPLES, _MOST_MILLIWATTS)
        self._clock = Ring(calls, _CLOCK_RING, pynvml.NVML_PROCESSOR_CLK_SAMPLES, _MOST_MEGAHERTZ)

    def read(self, handle: object, seconds: float | None) -> Mapping[str, float | None]:
        """Return the columns of gpu_samples for the `seconds` since the last call; exceptions as `Calls.ask`.

        An idle GPU adds no samples, and silence would read as a dead agent: utilization is then a snapshot, without
        shares (https://github.com/polarsignals/gpu-metrics-agent/issues/37). Extremes are of samples or unknown.
        """
        busy = self._utilization.read(handle)
        memory = self._memory.read(handle)
        found = of_samples(busy) if busy.values else RingShares()
        memory_ratio = of_samples(memory).ratio if memory.values else None
        if found.ratio is None or memory_ratio is None:
            now, memory_now = self._snapshot(handle)
            found = found if found.ratio is not None else RingShares(now)
            memory_ratio = memory_now if memory_ratio is None else memory_ratio
        return {
            "utilization_ratio": found.ratio,
            "utilization_zero_ratio": found.zero_ratio,
            "utilization_low_ratio": found.low_ratio,
            "utilization_high_ratio": found.high_ratio,
            "memory_utilization_ratio": memory_ratio,
            **(self._extremes(handle) if seconds is None or seconds >= SHORTEST_SECONDS else {}),
        }

    def _extremes(self, handle: object) -> Mapping[str, float | None]:
        power, clock = self._power.read(handle), self._clock.read(handle)
        watts = power.values if power.whole else ()
        hertz = clock.values if clock.whole else ()
        return {
            "power_watts_min": min(watts) / MILLIWATTS_PER_WATT if watts else None,
            "power_watts_max": max(watts) / MILLIWATTS_PER_WATT if watts else None,
            "sm_clock_hertz_min": float(min(hertz) * HERTZ_PER_MEGAHERTZ) if hertz else None,
        }

    def _snapshot(self, handle: object) -> tuple[float | None, float | None]:
        """Return utilization of the GPU and of its memory, as the driver last averaged it over 1/6 to 1 s."""
        rates = self._calls.ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
        if rates is None:
            return None, None
        return rates.gpu / 100 if rates.gpu <= 100 else None, rates.memory / 100 if rates.memory <= 100 else None


# Activity within the chip by GPM (Hopper and newer), which needs no privilege and disturbs no profiler.
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
_NOISE = 1.02  # a saturated pipe reads a little over 100%; more than this is no measurement

# nvmlGpmMetric_t: metric, return code, value, and three pointers to names.
_METRIC = struct.Struct("=Iid24x")


def decoded_metrics(metrics: bytes | memoryview, count: int) -> dict[int, float]:
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
        return decoded_metrics(memoryview(self._question.metrics).cast("B"), self._question.numMetrics)


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
        """Return the contract's columns for the interval; empty at the first call and where the last was too near."""
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
