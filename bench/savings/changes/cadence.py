"""Checkpoints at another cadence: what a failure takes is shorter, and saving takes its time.

Work is what is done between checkpoints. The failure comes when it came; what it takes is the work since the last
checkpoint before it, and the next attempt has that much less, or more, to do again. A run that is not tried again
within the span gains nothing: what its failure threw away is not done again, with or without a checkpoint.
"""

from dataclasses import replace

import numpy as np

from bench.savings.changes.pace import ending, lengths_of, where
from simulator.plan import Run
from simulator.timeline import Timeline

States = ("checkpointing",)


def save_more_often(runs: tuple[Run, ...], interval: int) -> tuple[Run, ...]:
    """Return the attempts of runs with a checkpoint every `interval` milliseconds of work."""
    made: list[Run] = []
    for number in dict.fromkeys(run.plan.number for run in runs):
        attempts = sorted((run for run in runs if run.plan.number == number), key=lambda run: run.plan.attempt)
        made += _attempts(attempts, interval) if len(attempts) > 1 else attempts
    return tuple(made)


def _attempts(attempts: list[Run], interval: int) -> list[Run]:
    """Return the attempts: those that failed end when they did, the last ends once all is done."""
    *failed, last = attempts
    gained, made = 0, []
    for run in failed:
        timeline = run.timelines[0]
        gained += _kept(timeline.end - timeline.start, interval, _longest_save(timeline)) - _kept_before(timeline)
        made.append(run)
    timeline = last.timelines[0]
    work = timeline.end - timeline.start - _saving(timeline)
    saves = max(0, work - gained) // interval
    end = timeline.start + max(0, work - gained) + saves * _longest_save(timeline)
    if end == timeline.end:
        return [*made, last]
    return [
        *made,
        replace(last, plan=ending(last.plan, end), timelines=tuple(_until(each, end) for each in last.timelines)),
    ]


def _until(timeline: Timeline, end: int) -> Timeline:
    """Return the timeline ended earlier, or its last phase for longer."""
    if end <= timeline.end:
        return timeline.between(timeline.start, end)
    return Timeline(np.append(timeline.edges[:-1], end), timeline.index, timeline.repertoire)


def _kept(length: int, interval: int, saving: int) -> int:
    """Return the work that is saved when a failure comes after this time."""
    return length // (interval + saving) * interval


def _kept_before(timeline: Timeline) -> int:
    saved = np.flatnonzero(where(timeline, lambda phase: phase.truth[0][0].state in States))
    if not len(saved):
        return 0
    until = int(timeline.edges[saved[-1] + 1]) - timeline.start
    return until - _saving(timeline)


def _saving(timeline: Timeline) -> int:
    saves = where(timeline, lambda phase: phase.truth[0][0].state in States)
    return int(lengths_of(timeline)[saves].sum())


def _longest_save(timeline: Timeline) -> int:
    """Return how long one checkpoint takes: two phases, the copy from the device and the writing."""
    saves = where(timeline, lambda phase: phase.truth[0][0].state in States)
    ends = int((saves & ~np.concatenate([saves[1:], [False]])).sum())
    return _saving(timeline) // ends if ends else 0
