"""Utilization from the driver's own ring of sub-second samples, which sees the stalls that a snapshot misses."""

from collections.abc import Sequence
from dataclasses import dataclass

import pynvml

from agent.nvml.calls import Calls

LOW_PERCENT = 20
HIGH_PERCENT = 80


@dataclass(frozen=True, slots=True)
class Utilization:
    """Utilization of one interval, 0 to 1; the shares are of the driver's samples, None where it gave none."""

    ratio: float | None = None
    zero_ratio: float | None = None
    low_ratio: float | None = None
    high_ratio: float | None = None


def of_samples(percents: Sequence[int]) -> Utilization:
    """Return mean and shares of at least one sample, in percent."""
    count = len(percents)
    return Utilization(
        ratio=sum(percents) / count / 100,
        zero_ratio=sum(percent == 0 for percent in percents) / count,
        low_ratio=sum(percent < LOW_PERCENT for percent in percents) / count,
        high_ratio=sum(percent > HIGH_PERCENT for percent in percents) / count,
    )


class UtilizationRing:
    """One GPU's ring (about 100 samples over 16 s: read it at least that often) and how far it was read."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._read_until = 0  # the driver's own time, boot or epoch: only ever compared with itself

    def read(self, handle: object) -> Utilization:
        """Return the utilization since the last call; a snapshot without shares where the ring has nothing new.

        An idle GPU adds no samples, and silence would read as a dead agent
        (https://github.com/polarsignals/gpu-metrics-agent/issues/37).

        Raises:
            SourceLostError: the GPU is gone until it is reset.
            DriverChangedError: the driver was replaced under this process.
        """
        samples = self._new_samples(handle)
        return of_samples(samples) if samples else self._snapshot(handle)

    def _new_samples(self, handle: object) -> list[int]:
        answer = self._calls.ask(
            pynvml.nvmlDeviceGetSamples, handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, self._read_until
        )
        if answer is None:
            return []
        # Unused places of the ring bear the time 0; the driver also repeats the sample at the cursor itself.
        new = [sample for sample in answer[1] if sample.timeStamp > self._read_until]
        self._read_until = max((sample.timeStamp for sample in new), default=self._read_until)
        return [percent for sample in new if 0 <= (percent := sample.sampleValue.uiVal) <= 100]

    def _snapshot(self, handle: object) -> Utilization:
        rates = self._calls.ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
        return Utilization() if rates is None or rates.gpu > 100 else Utilization(ratio=rates.gpu / 100)
