"""Steps too short to be told apart: how much of each is work, how much waiting, and the same with less waiting."""

from bench.savings.changes.pace import share_of
from simulator.activity import SIGNALS, Activity, blend
from simulator.labels import Label
from simulator.timeline import STALLED

COUNTED = ("steps", "samples", "tokens", "requests")


def rarer(activity: Activity, waited: Label, waiting: float) -> Activity:
    """Return a phase of which `waiting` is spent waiting for this, and the rest as its own working parts were.

    What it counts grows with the share of work, so that a shorter phase does the same.
    """
    was = share_of(activity, waited)
    idle = still(activity).being(waited)
    working = _without(activity, idle, was)
    made = blend((working, 1 - waiting), (idle, waiting))
    return made.but(**{name: getattr(activity, name) * (1 - waiting) / (1 - was) for name in COUNTED})


def still(activity: Activity) -> Activity:
    """Return the wait of the run that has this phase: its memory and its loader are there, its GPU is not used."""
    return STALLED.but(
        memory=activity.memory,
        workers=activity.workers,
        busiest_worker=activity.busiest_worker,
        host_memory=activity.host_memory,
        cores=activity.cores,
    )


def _without(activity: Activity, part: Activity, share: float) -> Activity:
    """Return what a blend was made of beside this part."""
    values = {name: max(0.0, (getattr(activity, name) - share * getattr(part, name)) / (1 - share)) for name in SIGNALS}
    labels = [(label, told) for label, told in activity.truth if label not in dict(part.truth)]
    whole = sum(told for _, told in labels) or 1.0
    return Activity(**values, truth=tuple((label, told / whole) for label, told in labels) or activity.truth)
