"""The driver's own rings of sub-second samples, which see the stalls and the peaks that a snapshot misses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pynvml

from agent.gpu.nvidia.calls import Calls
from agent.gpu.nvidia.units import HERTZ_PER_MEGAHERTZ, MILLIWATTS_PER_WATT
from agent.wire.units import SECOND_US

_LOW_PERCENT = 20
_HIGH_PERCENT = 80
_HOLE = 2 * SECOND_US  # between samples; the rings take some six a second
SHORTEST_SECONDS = 0.5  # of an interval whose extremes are asked for: in less there is hardly a sample
_SILENT_READS = 60  # after which the cursor itself is doubted
_MOST_MEGAHERTZ = 20_000
_MOST_MILLIWATTS = 100_000_000

UTILIZATION = "nvmlDeviceGetSamples(utilization)"
_MEMORY = "nvmlDeviceGetSamples(memory utilization)"
_POWER = "nvmlDeviceGetSamples(power)"
_CLOCK = "nvmlDeviceGetSamples(SM clock)"


@dataclass(frozen=True, slots=True)
class Utilization:
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


def of_samples(samples: Samples) -> Utilization:
    """Return mean and shares of samples in percent, at least one.

    Where a part of the interval is missing the mean of the rest is still the best guess, but a share of the interval
    that says "never" or "half of the time" would be a claim.
    """
    percents, count = samples.values, len(samples.values)
    ratio = sum(percents) / count / 100
    if not samples.whole:
        return Utilization(ratio)
    return Utilization(
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
        """Return what is new since the last call; nothing where the GPU was idle or has no such ring.

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
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
        self._utilization = Ring(calls, UTILIZATION, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 100)
        self._memory = Ring(calls, _MEMORY, pynvml.NVML_MEMORY_UTILIZATION_SAMPLES, 100)
        self._power = Ring(calls, _POWER, pynvml.NVML_TOTAL_POWER_SAMPLES, _MOST_MILLIWATTS)
        self._clock = Ring(calls, _CLOCK, pynvml.NVML_PROCESSOR_CLK_SAMPLES, _MOST_MEGAHERTZ)

    def read(self, handle: object, seconds: float | None) -> Mapping[str, float | None]:
        """Return the columns of gpu_samples for the `seconds` since the last call; exceptions as `Ring.read`.

        An idle GPU adds no samples, and silence would read as a dead agent: utilization is then a snapshot, without
        shares (https://github.com/polarsignals/gpu-metrics-agent/issues/37). Extremes are of samples or unknown.
        """
        busy = self._utilization.read(handle)
        memory = self._memory.read(handle)
        found = of_samples(busy) if busy.values else Utilization()
        memory_ratio = of_samples(memory).ratio if memory.values else None
        if found.ratio is None or memory_ratio is None:
            now, memory_now = self._snapshot(handle)
            found = found if found.ratio is not None else Utilization(now)
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
