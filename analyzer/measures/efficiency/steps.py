"""How long a step takes: by the run's own count, by a log that its owner names, or by the period of its GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from analyzer.measures.efficiency.autocorrelation import fundamental
from analyzer.states import Confidence

How = Literal["progress", "log", "period"]

# Samples must be ten times as frequent as steps to tell how much of a step is a stall (DS: reference algorithms 1.3).
EXPIRED = "its samples are no longer kept"
_SAMPLES_PER_STEP = 10
# Slower repetitions are evaluations and checkpoints; no published training step takes five minutes.
_STEP_MAX_SECONDS = 300.0
_SAMPLES_MAX = 2_000
_SAMPLES_LEAST = 200
# What is faster than the samples comes back as a slow and shallow wave: an average over a whole interval keeps at most
# a ninth of its swing where the ghost takes ten samples or more (sinc(0.9) = 0.11). So a swing must be more than this
# share of what it could be: of activity, that of a GPU that is full or idle; of power, which has no such end, the mean.
_SWING_LEAST = 0.2
_STRONG = 0.7  # of the correlation: below it the period is there, and drowned in other things


@dataclass(frozen=True, slots=True)
class ReportedProgress:
    """What a run said of itself, in all. `working_us` is the time from its first word to its last in which steps could
    be made (efficiency_query.py); None where the ledger does not know. `first_at` is in microseconds
    UTC.

    `is_chorus` means that several hosts counted at the same time, so that nobody knows whose count is the run's.
    """

    run_id: str
    steps: int | None = None
    samples: int | None = None
    tokens: int | None = None
    working_us: int | None = None
    is_chorus: bool = False


@dataclass(frozen=True, slots=True)
class Wave:
    """One GPU over time: abutting samples of equal length, and of what (`sm_active_ratio` or `power_watts`)."""

    seconds: float
    values: tuple[float, ...]
    of: Literal["sm_active_ratio", "power_watts"]


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of working time that a step takes, how that is known and of how many steps; or why it is not known."""

    seconds: float | None
    how: How | None = None
    confidence: Confidence | None = None
    steps: int | None = None
    because: str | None = None


def step_time(
    told: ReportedProgress | None, wave: Wave | None, log: StepTime | None = None, *, is_expired: bool = False
) -> StepTime:
    """Return the best that is known: a log that somebody names, the run's own count, the period of a GPU.

    `is_expired` says that of the run's samples some are no longer kept.
    """
    if log is not None:
        return log
    counted = by_progress(told)
    if counted.seconds is not None:
        return counted
    seen = StepTime(None, because=EXPIRED) if wave is None and is_expired else by_period(wave)
    return seen if seen.seconds is not None else StepTime(None, because=f"{counted.because}; {seen.because}")


def by_progress(told: ReportedProgress | None) -> StepTime:
    """Return the step time by the run's own count of steps: exact."""
    if told is None or not told.steps:
        return StepTime(None, because="the run does not say its steps")
    if told.is_chorus:
        return StepTime(None, because="several hosts count its steps at once: let rank 0 alone speak")
    if not told.working_us:
        return StepTime(None, because="the ledger has no working time of it")
    return StepTime(told.working_us / told.steps / 1_000_000, "progress", "high", told.steps)


def by_period(wave: Wave | None) -> StepTime:
    """Return the step time by the period with which one GPU falls quiet and works again.

    Never of high confidence: that a period is a step, and not a part of one or several, is not seen from outside.
    """
    if wave is None:
        return StepTime(None, because="no samples of one GPU of its own")
    least = _SAMPLES_PER_STEP * wave.seconds
    if len(wave.values) < _SAMPLES_LEAST or least > _STEP_MAX_SECONDS:
        many = f"{len(wave.values)} samples in a row, {wave.seconds:g} s each"
        return StepTime(None, because=f"{many}, show no period that could be a step")
    mean = sum(wave.values) / len(wave.values)
    swing = (sum((value - mean) ** 2 for value in wave.values) / len(wave.values)) ** 0.5
    possible = sqrt(max(0.0, mean * (1 - mean))) if wave.of == "sm_active_ratio" else mean
    if swing < _SWING_LEAST * possible or swing == 0:
        return StepTime(None, because=f"its GPU is too even at {wave.seconds:g} s a sample to show steps")
    found = fundamental(wave.values, _SAMPLES_PER_STEP, int(_STEP_MAX_SECONDS / wave.seconds))
    if isinstance(found, str):
        return StepTime(None, because=f"{found} ({wave.seconds:g} s a sample shows steps from {least:g} s on)")
    sure: Confidence = "medium" if wave.of == "sm_active_ratio" and found.strength >= _STRONG else "low"
    return StepTime(found.lag * wave.seconds, "period", sure, int(found.cycles))


def longest_even(samples: Sequence[tuple[int, int, float]]) -> tuple[float, tuple[float, ...]] | None:
    """Return the newest longest stretch of samples that abut and are equally long: seconds of one, and the values.

    Of each sample: start, end (microseconds) and value, in order. A beat may be a tenth of its length off. None where
    there are not two.
    """
    if len(samples) < 2:
        return None
    usual = sorted(end - start for start, end, _ in samples)[len(samples) // 2]
    best: list[float] = []
    run: list[float] = []
    before: int | None = None
    for start, end, value in samples:
        is_even = abs(end - start - usual) * 10 <= usual
        if not is_even or (before is not None and abs(start - before) * 10 > usual):
            run = []
        if is_even:
            run.append(value)
        before = end
        if len(run) >= len(best):
            best = run
    return (usual / 1_000_000, tuple(best[-_SAMPLES_MAX:])) if len(best) > 1 and usual > 0 else None
