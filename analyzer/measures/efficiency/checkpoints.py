"""A run's checkpoints: how often, at what cost, how often would be best, and whether one was ever restored."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from agent.wire.units import MINUTE_US
from analyzer.measures.efficiency.cadence import (
    Advice,
    Failures,
    advice,
    best_interval_seconds,
    lost_ratio,
    mtbf_seconds,
)
from analyzer.measures.efficiency.figure import Figure, withheld

_ONE_BURST_US = 2 * MINUTE_US  # minutes of writing that follow each other are one checkpoint
_CHECKPOINTS_LEAST = 3  # two intervals


@dataclass(frozen=True, slots=True)
class Saving:
    """What is known of the checkpoints of one run in a period. Times are microseconds UTC, GPU time milliseconds.

    `seen` are minutes with a dip and a burst of writing, `named` the moments at which the run said one to be complete.
    """

    run_id: str
    name: str | None
    team: str | None
    gpus: int
    nodes: int
    seen: tuple[int, ...]
    named: tuple[int, ...]
    saving_ms: int
    saving_micros: int | None
    held_ms: int
    held_micros: int | None
    restored_at: int | None  # when an attempt that followed on a checkpoint first worked


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A run's checkpoints and what is to be said of them. `interval_seconds` is the median between two.

    `save_seconds` is the time that the GPUs stood still for one, `stake_ms` the GPU time that the best interval would
    have saved; None where no best interval is known. `worst_node` failed `worst_node_failures` times.
    """

    count: int
    by: Literal["seen", "named"]
    interval_seconds: Figure
    save_seconds: Figure
    saving_ms: int
    saving_micros: int | None
    mtbf_seconds: Figure
    best_seconds: Figure
    advice: Advice | None
    stake_ms: int | None
    stake_micros: int | None
    restored_at: int | None
    worst_node: str | None = None
    worst_node_failures: int = 0


def checkpoints(saving: Saving, failures: Failures, nodes: Sequence[str] = ()) -> Checkpoints | None:
    """Return what is known of a run's checkpoints; None where none was seen and none was named.

    `nodes` are the run's hosts: only one of them can be the host that keeps failing it.
    """
    moments = saving.named if len(saving.named) >= _CHECKPOINTS_LEAST else bursts(saving.seen) or saving.named
    if not moments:
        return None
    interval = _interval(moments)
    save = _save(saving, len(moments))
    mtbf = mtbf_seconds(failures, saving.nodes)
    worst = next(((node, times) for node, times in failures.repeating if node in nodes), None)
    best, verdict, stake = _judged(interval, save, mtbf, worst)
    return Checkpoints(
        len(moments),
        "named" if moments is saving.named else "seen",
        interval,
        save,
        saving.saving_ms,
        saving.saving_micros,
        mtbf,
        best,
        verdict,
        None if stake is None else round(stake * saving.held_ms),
        None if stake is None or saving.held_micros is None else round(stake * saving.held_micros),
        saving.restored_at,
        *(worst or (None, 0)),
    )


def bursts(minutes: Sequence[int]) -> tuple[int, ...]:
    """Return the first minute of each checkpoint; minutes that follow each other belong together."""
    found: list[int] = []
    before: int | None = None
    for minute in sorted(minutes):
        if before is None or minute - before > _ONE_BURST_US:
            found.append(minute)
        before = minute
    return tuple(found)


def _interval(moments: Sequence[int]) -> Figure:
    if len(moments) < _CHECKPOINTS_LEAST:
        return withheld(f"{len(moments)} checkpoints: {_CHECKPOINTS_LEAST} are needed for an interval")
    steps = sorted(after - before for before, after in pairwise(moments))
    return Figure(steps[(len(steps) - 1) // 2] / 1_000_000)


def _save(saving: Saving, count: int) -> Figure:
    if saving.saving_ms <= 0 or saving.gpus <= 0:
        return withheld("no time was seen lost to saving")
    return Figure(saving.saving_ms / saving.gpus / count / 1_000)


def _judged(
    interval: Figure, save: Figure, mtbf: Figure, worst: tuple[str, int] | None
) -> tuple[Figure, Advice | None, float | None]:
    every, took, between = interval.value, save.value, mtbf.value
    if every is None or took is None or between is None:
        return withheld(interval.because or save.because or mtbf.because or "BUG: no reason"), None, None
    if took * 2 > between:
        return withheld("saving takes nearly as long as passes between failures: no interval helps"), None, None
    best = best_interval_seconds(between, took)
    excess = lost_ratio(every, between, took) - lost_ratio(best, between, took)
    return Figure(best), advice(every, best, worst), max(0.0, excess)
