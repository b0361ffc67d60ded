"""Checkpoints of a run: how often it saves, what that costs, and the interval that would lose least.

J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17(9), 1974. It holds where saving
takes much less time than passes between failures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Literal

from agent.wire.units import MINUTE_US


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, or why there is none: never both, never neither. The unit is said where a figure is made."""

    value: float | None
    because: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.because is None):
            raise ValueError("BUG: a figure is a number or a reason")


def withheld(because: str) -> Figure:
    """Return a figure that is not known, with the reason: words that may follow "n/a: "."""
    return Figure(None, because)


Advice = Literal["more often", "less often", "right", "node"]

_OFF_BY = 2.0  # within a factor of two of the best interval the loss is a quarter above its least: not worth a change
FAILURES_LEAST = 3  # with fewer the mean says more about luck than about hosts
NODE_FAILURES_LEAST = 2  # of one host: once is chance


@dataclass(frozen=True, slots=True)
class Failures:
    """What ended attempts in the time that is looked back on: how many, and in how many microseconds of held hosts.

    `repeating` are hosts that were down when attempts ended for it, twice or more often, with how often.
    """

    failures: int
    node_us: int
    repeating: tuple[tuple[str, int], ...] = ()


def mtbf_seconds(failures: Failures, nodes: int) -> Figure:
    """Return the mean time between failures of a run on so many hosts, each failing for itself."""
    if failures.failures < FAILURES_LEAST:
        hours = failures.node_us // 3_600_000_000
        seen = f"{failures.failures} failure{'' if failures.failures == 1 else 's'} of training in {hours:,} host-hours"
        return withheld(f"{seen}: {FAILURES_LEAST} are needed for a mean")
    return Figure(failures.node_us / failures.failures / max(1, nodes) / 1_000_000)


def best_interval_seconds(mtbf: float, save: float) -> float:
    """Return the interval between checkpoints that loses least; both in seconds and above 0."""
    return sqrt(2 * mtbf * save)


def lost_ratio(interval: float, mtbf: float, save: float) -> float:
    """Return the share of time that saving takes and failures throw away, at this interval (seconds)."""
    return save / interval + interval / (2 * mtbf)


def advice(interval: float, best: float, worst_node: tuple[str, int] | None) -> Advice:
    """Return what to do with an interval; "node" says that it is right, and that one host keeps failing the run."""
    if interval > _OFF_BY * best:
        return "more often"
    if interval * _OFF_BY < best:
        return "less often"
    return "node" if worst_node is not None and worst_node[1] >= NODE_FAILURES_LEAST else "right"


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
        return withheld("no time lost to saving was observed")
    return Figure(saving.saving_ms / saving.gpus / count / 1_000)


def _judged(
    interval: Figure, save: Figure, mtbf: Figure, worst: tuple[str, int] | None
) -> tuple[Figure, Advice | None, float | None]:
    every, took, between = interval.value, save.value, mtbf.value
    if every is None or took is None or between is None:
        return withheld(interval.because or save.because or mtbf.because or "BUG: no reason"), None, None
    if took * 2 > between:
        return withheld("saving takes nearly as long as the time between failures: no interval helps"), None, None
    best = best_interval_seconds(between, took)
    excess = lost_ratio(every, between, took) - lost_ratio(best, between, took)
    return Figure(best), advice(every, best, worst), max(0.0, excess)
