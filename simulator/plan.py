"""Who holds which GPUs, from when until when, what they do there, and what is broken, drained or silent meanwhile."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from agent.wire.units import DAY_SECONDS
from simulator import labels
from simulator.activity import NOTHING, OFF_THE_BUS, Activity
from simulator.labels import Label
from simulator.timeline import Tape, Timeline

# down: the host is dead, its agent too. drained: nobody may start on it. lost: a GPU is off the bus, the agent says
# so. silent: the agent is down, nothing is known.
OutageKind = Literal["down", "drained", "lost", "silent"]

_TRUTH: dict[str, Label] = {"down": labels.NODE_DOWN, "silent": labels.AGENT_DOWN}


@dataclass(frozen=True, slots=True)
class Outage:
    """One of them; `gpu` is None for a whole host. Times are milliseconds since the site's start."""

    node: str
    gpu: int | None
    start: int
    end: int
    kind: OutageKind
    reason: str

    @property
    def silences(self) -> bool:
        """Whether no rows arrive meanwhile."""
        return self.kind in _TRUTH

    @property
    def restarts_counters(self) -> bool:
        """Whether the driver is loaded anew afterwards."""
        return self.kind in ("down", "lost")

    def touches(self, node: str, gpu: int) -> bool:
        """Whether it is about this GPU."""
        return self.node == node and self.gpu in (None, gpu)

    def changes(self, activity: Activity) -> Activity:
        """Return what an activity becomes under it."""
        if self.kind == "lost":
            return OFF_THE_BUS.being(labels.GPU_LOST)
        held = activity.truth != NOTHING.truth
        if self.kind == "drained":
            return activity if held else activity.being(labels.DRAINED)
        if self.kind == "silent" and not held:
            return activity  # that nobody held it is known without an agent
        return activity.being(_TRUTH[self.kind])


# Who holds which GPUs, from when until when, and what they do there.
# Slurm's word for how a run ended, and what it did to the work since the last checkpoint.
_LOST_BY = {
    "failed": "failed",
    "out_of_memory": "failed",
    "timeout": "failed",
    "preempted": "preempted",
    "node_failed": "node_failed",
}


@dataclass(frozen=True, slots=True)
class Seat:
    """One GPU of a run, and its place in the run's order of ranks."""

    node: str
    gpu: int
    rank: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One attempt of one run: an allocation. Times are milliseconds since the site's start and may lie outside.

    `ended` is None while it is held. `shared` counts the runs that hold its GPU at the same time.
    """

    number: str  # the scheduler's job id
    name: str
    account: str
    queue: str
    seats: tuple[Seat, ...]
    submitted: int
    started: int
    ended: int | None = None
    exit_status: str | None = None
    attempt: int = 0
    limit_seconds: float = 7.0 * DAY_SECONDS
    priority: float = 1_000.0
    cores_per_gpu: int = 8
    labels: dict[str, str] = field(default_factory=dict)
    shared: int = 1
    promised_seconds: float | None = None  # a service's time to the first answer
    reports_progress: bool = False

    @property
    def lost_by(self) -> str | None:
        """What threw its work away, None where nothing did."""
        return _LOST_BY.get(self.exit_status or "")

    def tape(self, horizon: int) -> Tape:
        """Return an empty tape from its start to its end, or to the horizon while it is held."""
        return Tape(self.started, horizon if self.ended is None else self.ended)


@dataclass(frozen=True, slots=True)
class Run:
    """A plan with what each of its seats does: timelines[roles[i]] for seat i. Ranks in lockstep share a role."""

    plan: Plan
    timelines: tuple[Timeline, ...]
    roles: tuple[int, ...]

    def timeline(self, seat: int) -> Timeline:
        """Return what this seat does."""
        return self.timelines[self.roles[seat]]


Archetype: TypeAlias = Callable[[Plan, int, np.random.Generator], Run]  # plan, horizon, random numbers
PlanEntry: TypeAlias = tuple[Plan, Archetype]


def alike(plan: Plan, tape: Tape) -> Run:
    """Return a run all of whose seats do the same."""
    return Run(plan, (tape.timeline(plan.lost_by),), (0,) * len(plan.seats))


def seats(nodes: tuple[str, ...], gpus: tuple[int, ...] = tuple(range(8))) -> tuple[Seat, ...]:
    """Return these GPUs of these nodes, ranked node by node in the order given."""
    pairs = [(node, gpu) for node in nodes for gpu in gpus]
    return tuple(Seat(node, gpu, rank) for rank, (node, gpu) in enumerate(pairs))
