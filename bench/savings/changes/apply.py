"""The runs of a site after its changes. What no change names is what it was, to the bit."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from bench.savings.changes.cadence import save_more_often
from bench.savings.changes.change import Change
from bench.savings.changes.holding import ask_for_fewer, release
from bench.savings.changes.links import cool, exclude, order_ranks
from bench.savings.changes.loaders import more_workers, pin_memory
from bench.savings.changes.sharing import pack, slice_gpus
from bench.savings.changes.storage import cache_input, stage_input
from simulator.fleet import Fleet
from simulator.plan import Run
from simulator.site import Site

Runs: TypeAlias = tuple[Run, ...]
Physics: TypeAlias = Callable[[Runs, Change, Site], Runs]


def changed(runs: Runs, changes: Sequence[Change], site: Site) -> Runs:
    """Return the runs after the changes, each change on what the ones before it left.

    Raises:
        KeyError: a change is of a kind that is not known here.
    """
    for change in changes:
        touched = tuple(run for run in runs if run.plan.number in change.runs)
        rest = tuple(run for run in runs if run.plan.number not in change.runs)
        runs = (*rest, *KINDS[change.kind](touched, change, site)) if touched else runs
    return tuple(sorted(runs, key=lambda run: (run.plan.number, run.plan.attempt))) if changes else runs


class ChangedFleet(Fleet):
    """A fleet after changes: its GPUs do what the changed runs make of them."""

    def __init__(self, site: Site, changes: Sequence[Change]) -> None:
        super().__init__(site)
        self.runs = changed(self.runs, changes, site)


def _generator(site: Site, change: Change, purpose: str) -> np.random.Generator:
    """Return random numbers that hang on the change and on what it is done to, and on no other change."""
    return site.generator("change", change.kind, purpose)


def _settings(runs: Runs, change: Change, site: Site, physics: Callable[..., Run]) -> Runs:
    """Return each run changed by itself: its program is its own."""
    return tuple(
        physics(run, _generator(site, change, f"{run.plan.number}/{run.plan.attempt}"), change) for run in runs
    )


def _surroundings(runs: Runs, change: Change, site: Site, physics: Callable[..., Run]) -> Runs:
    """Return each run changed by what all runs of its name have in common: their data set, their hosts, their links."""
    return tuple(physics(run, _generator(site, change, run.plan.name), change, site) for run in runs)


def _release(runs: Runs, change: Change, site: Site) -> Runs:
    return tuple(part for run in runs for part in release(run, _generator(site, change, run.plan.number), change.since))


def _fewer(runs: Runs, _change: Change, _site: Site) -> Runs:
    return tuple(part for run in runs for part in ask_for_fewer(run))


def _slices(runs: Runs, change: Change, site: Site) -> Runs:
    return slice_gpus(runs, _generator(site, change, runs[0].plan.name))


def _pack(runs: Runs, change: Change, site: Site) -> Runs:
    return pack(runs, _generator(site, change, runs[0].plan.name))


def _save(runs: Runs, change: Change, _site: Site) -> Runs:
    return save_more_often(runs, round(change.interval_seconds * 1_000))


def _nothing(runs: Runs, _change: Change, _site: Site) -> Runs:
    return runs  # another host's drives are no faster: see storage


KINDS: dict[str, Physics] = {
    "more_workers": partial(_settings, physics=more_workers),
    "pin_memory": partial(_settings, physics=pin_memory),
    "stage_input": partial(_surroundings, physics=stage_input),
    "cache_input": partial(_surroundings, physics=cache_input),
    "move_to_same_drives": _nothing,
    "order_ranks": partial(_surroundings, physics=order_ranks),
    "cool": partial(_surroundings, physics=cool),
    "exclude": partial(_surroundings, physics=exclude),
    "release": _release,
    "ask_for_fewer": _fewer,
    "slice": _slices,
    "pack": _pack,
    "save_more_often": _save,
}
