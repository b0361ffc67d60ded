"""The same phases in another time: what a change does to a run whose ranks go in lockstep.

Every draw of the unchanged run is kept: the same steps, saves and pauses in the same order, each at its old length but
for those that the change is about. What hung on the hour (heat at noon) stays with the steps that it met.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from simulator.activity import Activity, BoolArray, IntArray, Repertoire
from simulator.labels import Label
from simulator.plan import Plan, Run
from simulator.timeline import Timeline

Rewrite: TypeAlias = Callable[[Activity, float], Activity]  # a phase and how many times as long it now is

BUSY = 0.5  # of utilization: a phase in which the GPU works
FINE = 100  # lengths are told apart to a hundredth where phases are written anew


@dataclass(frozen=True, slots=True)
class Pace:
    """Where each edge of a timeline comes to lie. Both ascend, and the first is where it was."""

    old: IntArray
    new: IntArray

    @classmethod
    def of(cls, reference: Timeline, lengths: IntArray) -> "Pace":
        """Return the pace at which the reference's phases have these lengths."""
        return cls(reference.edges, reference.start + np.concatenate([[0], np.cumsum(lengths)]))

    def at(self, times: IntArray) -> IntArray:
        """Return when what happened at these times happens now."""
        moved: IntArray = np.rint(np.interp(times, self.old, self.new)).astype(np.int64)
        return moved


def retimed(run: Run, lengths: IntArray, rewrite: Rewrite, since: int = 0) -> Run:
    """Return the run with new lengths of the phases of its first timeline, whose edges all ranks share.

    Phases from `since` on are written anew by `rewrite`; those that last no longer are gone. A run that was still
    going on when the span ended ends once it has done what it had done by then.
    """
    reference = run.timelines[0]
    if not (lengths != np.diff(reference.edges)).any():
        return run
    pace = Pace.of(reference, lengths)
    timelines = tuple(_rewritten(timeline, pace, rewrite, since) for timeline in run.timelines)
    return Run(ending(run.plan, timelines[0].end), timelines, run.roles)


def ending(plan: Plan, end: int) -> Plan:
    """Return the plan with another end; a run that had none is now completed."""
    return replace(plan, ended=end, exit_status=plan.exit_status or "completed")


def lengths_of(timeline: Timeline) -> IntArray:
    """Return how long each phase lasts, in milliseconds."""
    lengths: IntArray = np.diff(timeline.edges)
    return lengths


def later(timeline: Timeline, since: int) -> BoolArray:
    """Return which phases begin at or after a time."""
    after: BoolArray = timeline.edges[:-1] >= since
    return after


def where(timeline: Timeline, chosen: Callable[[Activity], bool]) -> BoolArray:
    """Return which phases are of such an activity."""
    phases: BoolArray = np.array([chosen(activity) for activity in timeline.activities], dtype=np.bool_)[timeline.index]
    return phases


def share_of(activity: Activity, *wanted: Label) -> float:
    """Return the share of a phase that is truly one of these, or was before a failure threw it away."""
    states = {label.state for label in wanted}
    return sum(share for label, share in activity.truth if label in wanted or label.would_be in states)


def work_before(timeline: Timeline) -> IntArray:
    """Return, for each phase, the length of the phase before it where the GPU worked in that one, else 0."""
    busy = where(timeline, lambda activity: activity.utilization > BUSY)
    before = np.where(busy, lengths_of(timeline), 0)
    worked: IntArray = np.concatenate([[0], before[:-1]])
    return worked


def _rewritten(timeline: Timeline, pace: Pace, rewrite: Rewrite, since: int) -> Timeline:
    edges = pace.at(timeline.edges)
    lengths = np.diff(edges)
    kept = lengths > 0
    times = np.rint(FINE * lengths[kept] / np.diff(timeline.edges)[kept]).astype(np.int64)
    after = later(timeline, since)[kept]
    codes = np.stack([timeline.index[kept], np.where(after, times, -1)], axis=1)
    used, index = np.unique(codes, axis=0, return_inverse=True)
    made = [
        timeline.activities[at] if length < 0 else rewrite(timeline.activities[at], max(1, length) / FINE)
        for at, length in used.tolist()
    ]
    return Timeline(np.concatenate([edges[:1], edges[1:][kept]]), index.reshape(-1), Repertoire(made))
