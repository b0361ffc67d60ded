"""What is held: quiet GPUs given back, and GPUs that are never used not asked for.

- A run that fell quiet is ended when a site's watch sees it: job_defense_shield (Princeton) cancels 120 minutes after
  the last sign of life and looks every 15.
- Some owners come back for what they lost: start anew, work for about two hours, end. How many is ours: 15%.
- A seat whose GPU does nothing all the time is not asked for; a seat that is used at any time is, since nobody knows
  beforehand when.
"""

from dataclasses import replace

import numpy as np

from agent.wire.units import HOUR_MS, MINUTE_MS
from bench.savings.changes.pace import ending, share_of, where
from simulator import labels
from simulator.activity import Activity
from simulator.plan import Run
from simulator.timeline import Timeline

CANCELLED_AFTER = 120 * MINUTE_MS
LOOKS_EVERY = 15 * MINUTE_MS
COMES_BACK = 0.15
COMES_BACK_WITHIN_HOURS = (0.5, 16.0)
AGAIN_HOURS, AGAIN_SIGMA = 2.0, 0.5


def release(run: Run, rng: np.random.Generator, since: int) -> tuple[Run, ...]:
    """Return the run ended once it was quiet for long enough, and what its owner does then."""
    late, returns = rng.uniform(0, LOOKS_EVERY), rng.random() < COMES_BACK
    pause, hours = rng.uniform(*COMES_BACK_WITHIN_HOURS), AGAIN_HOURS * np.exp(rng.normal(0, AGAIN_SIGMA))
    whole = run.timelines[0]
    released = max(since, _quiet_since(whole)) + CANCELLED_AFTER + round(late)
    if released >= whole.end:
        return (run,)
    first = Run(
        replace(ending(run.plan, released), exit_status="cancelled"),
        tuple(timeline.between(timeline.start, released) for timeline in run.timelines),
        run.roles,
    )
    begins = released + round(pause * HOUR_MS)
    ends = min(begins + round(hours * HOUR_MS), whole.end)
    return (first, _again(run, begins, ends)) if returns and begins < ends else (first,)


def _quiet_since(timeline: Timeline) -> int:
    """Return when the last sign of life was."""
    quiet = where(timeline, lambda phase: share_of(phase, labels.ABANDONED) > 0.99)
    alive = np.flatnonzero(~quiet)
    return int(timeline.edges[alive[-1] + 1]) if len(alive) else timeline.start


def _again(run: Run, begins: int, ends: int) -> Run:
    """Return a second attempt that does what the first did at its beginning."""
    plan = ending(replace(run.plan, attempt=run.plan.attempt + 1, submitted=begins, started=begins), ends)
    length = ends - begins
    parts = tuple(timeline.between(timeline.start, timeline.start + length) for timeline in run.timelines)
    moved = tuple(Timeline(part.edges + (begins - part.start), part.index, part.repertoire) for part in parts)
    return Run(replace(plan, exit_status="completed"), moved, run.roles)


def ask_for_fewer(run: Run) -> tuple[Run, ...]:
    """Return the run without the seats that it never uses; nothing where it uses none."""
    idle = [bool(where(run.timeline(at), _is_unused).all()) for at in range(len(run.plan.seats))]
    kept = [at for at, unused in enumerate(idle) if not unused]
    if len(kept) == len(idle):
        return (run,)
    if not kept:
        return ()
    seats = tuple(run.plan.seats[at] for at in kept)
    return (Run(replace(run.plan, seats=seats), run.timelines, tuple(run.roles[at] for at in kept)),)


def _is_unused(phase: Activity) -> bool:
    return dict(phase.truth).get(labels.NEVER_USED, 0.0) > 0.99
