"""Goodput of a run in the published terms, from the ledger's rows; each figure known, or with the reason why not.

Google's ML Goodput counts what is lost (badput) by kind, and calls the rest productive: a step that is slow is
productive there. So communication, throttling and small kernels are within the step, while starting, saving,
input starvation, hangs, standing idle and thrown-away work are badput. What was not measured or not explained is
neither, and stands beside them: goodput, badput and unknown are the whole of the run's GPU time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from agent.wire.units import MILLISECOND_US
from analyzer.measures.efficiency.figure import Figure, withheld

_Badput = Literal[
    "starting", "restoring", "data loading", "checkpointing", "wasted progress", "idle", "hang", "hardware down"
]
GoodputClass = Literal["good", "unknown"] | _Badput

_KINDS: dict[tuple[str, str | None], GoodputClass] = {
    ("starting", "restore"): "restoring",
    ("communicating", "hang"): "hang",
}
_BY_STATE: dict[str, GoodputClass] = {
    "starting": "starting",
    "checkpointing": "checkpointing",
    "starved": "data loading",
    "lost_work": "wasted progress",
    "held_idle": "idle",
    "headroom": "idle",
    "unallocated": "idle",
    "broken": "hardware down",
    "unobserved": "unknown",
    "unexplained": "unknown",
    "communicating": "good",
    "throttled": "good",
    "underused": "good",
    "productive": "good",
}
_UNKNOWN_MOST = 0.5  # with more than half of the time unknown the rest says little
_UNASKED = "nobody says when it was submitted"


@dataclass(frozen=True, slots=True)
class Spent:
    """GPU milliseconds that a run held in one state and cause, and what they cost in millionths (None: no price)."""

    state: str
    cause: str | None
    milliseconds: int
    cost_micros: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a run, in microseconds UTC. `worked_at` is when the last of its GPUs first worked; None: never."""

    number: int
    started_at: int | None
    worked_at: int | None
    ended_at: int | None
    exit_status: str | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Life:
    """From when to when a run was, in microseconds UTC, and with how many GPUs.

    `until` is its end, or up to when it is known while it runs; `known_from` is the ledger's first hour of it.
    """

    gpus: int
    submitted_at: int | None
    started_at: int | None
    known_from: int
    until: int

    @property
    def hidden(self) -> str | None:
        """Why the time before it worked is not known; None where it is."""
        if self.submitted_at is None:
            return _UNASKED
        if self.started_at is None or self.started_at < self.known_from:
            return "it began before the ledger does"
        return None


@dataclass(frozen=True, slots=True)
class Loss:
    """One kind of badput and its share of the run's GPU time, 0 to 1."""

    kind: _Badput
    ratio: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """Goodput (Google) and ETTR (Meta) as ratios, and the two times that Meta's definition is made of, in seconds.

    `unknown_ratio` is the share of its GPU time that was not measured or not explained.
    """

    goodput: Figure
    badput: tuple[Loss, ...]
    unknown_ratio: float
    ettr: Figure
    time_to_start_seconds: Figure
    time_to_recover_seconds: Figure


def kind_of(state: str, cause: str | None) -> GoodputClass:
    """Return what a state of the ledger is in terms of goodput; a KeyError is our own mistake."""
    return _KINDS.get((state, cause)) or _BY_STATE[state]


def goodput(spent: Iterable[Spent], attempts: Sequence[Attempt], life: Life) -> Goodput:
    """Return a run's goodput."""
    sums: dict[GoodputClass, int] = {}
    for row in spent:
        kind = kind_of(row.state, row.cause)
        sums[kind] = sums.get(kind, 0) + row.milliseconds
    whole = sum(sums.values())
    unknown = sums.get("unknown", 0)
    times = _time_to_start(attempts, life), _time_to_recover(attempts)
    if not whole or unknown > _UNKNOWN_MOST * whole:
        why = "more than half of its time is not measured or not explained"
        return Goodput(withheld(why), (), unknown / whole if whole else 1.0, withheld(why), *times)
    good = sums.get("good", 0)
    return Goodput(Figure(good / whole), _losses(sums, whole), unknown / whole, _ettr(good, whole, life), *times)


def _losses(sums: Mapping[GoodputClass, int], whole: int) -> tuple[Loss, ...]:
    bad = [(kind, ms) for kind, ms in sums.items() if kind not in ("good", "unknown") and ms]
    return tuple(Loss(kind, ms / whole) for kind, ms in sorted(bad, key=lambda item: (-item[1], item[0])))  # type: ignore[arg-type]


def _ettr(good_ms: int, whole_ms: int, life: Life) -> Figure:
    """Return productive time over the time from submission to the end, queues between attempts included."""
    if life.submitted_at is None or life.hidden is not None:
        return withheld(life.hidden or _UNASKED)
    wall_ms = life.gpus * (life.until - life.submitted_at) // MILLISECOND_US
    if wall_ms < whole_ms:
        return withheld("it held more GPU time than its GPUs and its time make: its size changed")
    return Figure(good_ms / wall_ms)


def _time_to_start(attempts: Sequence[Attempt], life: Life) -> Figure:
    if life.submitted_at is None or life.hidden is not None:
        return withheld(life.hidden or _UNASKED)
    first = min(attempts, key=lambda attempt: attempt.number, default=None)
    if first is None or first.worked_at is None:
        return withheld("its first attempt was not seen to work")
    return Figure(max(0, first.worked_at - life.submitted_at) / 1_000_000)


def _time_to_recover(attempts: Sequence[Attempt]) -> Figure:
    """Return the median of the times from the end of an attempt to the first work of the next."""
    ordered = sorted(attempts, key=lambda attempt: attempt.number)
    times = [
        after.worked_at - before.ended_at
        for before, after in pairwise(ordered)
        if before.ended_at is not None and after.worked_at is not None and after.worked_at >= before.ended_at
    ]
    if len(ordered) < 2:
        return withheld("it never had to begin again")
    if not times:
        return withheld("no later attempt was seen to work")
    return Figure(sorted(times)[(len(times) - 1) // 2] / 1_000_000)
