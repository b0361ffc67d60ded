"""The fleet as it was: what every GPU did from the first to the last millisecond of the span."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simulator.activity import NOTHING, BoolArray, IntArray
from simulator.plan import Outage, Plan, Run
from simulator.schedule import outages, pending, plans
from simulator.site import Host, Site
from simulator.timeline import Timeline, joined, lasting


@dataclass(frozen=True, slots=True)
class Stay:
    """One run's time on one GPU. `main` is False for all but one of the runs that share a GPU."""

    run: Run
    timeline: Timeline  # cut to the span
    main: bool


class Fleet:
    """Every run of a site, and what it makes of every GPU. Built once; reading it changes nothing."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.outages: tuple[Outage, ...] = outages(site)
        self.pending: tuple[Plan, ...] = pending(site)
        self.runs: tuple[Run, ...] = tuple(
            archetype(plan, site.span, site.generator("run", _share(plan), plan.attempt))
            for plan, archetype in plans(site)
        )
        self._timelines: dict[tuple[str, int], Timeline] = {}

    @cached_property
    def _stays(self) -> dict[tuple[str, int], list[Stay]]:
        found: dict[tuple[str, int], list[Stay]] = {}
        for run in self.runs:
            for at, seat in enumerate(run.plan.seats):
                made = run.timeline(at)
                start, end = max(0, made.start), min(self.site.span, made.end)
                if start < end:
                    stays = found.setdefault((seat.node, seat.gpu), [])
                    alone = all(stay.timeline.end <= start or stay.timeline.start >= end for stay in stays)
                    stays.append(Stay(run, made.between(start, end), alone))
        return found

    def stays(self, host: Host, gpu: int) -> list[Stay]:
        """Return who held a GPU within the span, in the order in which they took it."""
        return sorted(self._stays.get((host.name, gpu), []), key=lambda stay: stay.timeline.start)

    def timeline(self, host: Host, gpu: int) -> Timeline:
        """Return what a GPU did over the whole span, free and broken times included."""
        key = (host.name, gpu)
        if key not in self._timelines:
            self._timelines[key] = self._assembled(host, gpu)
        return self._timelines[key]

    def _assembled(self, host: Host, gpu: int) -> Timeline:
        parts, now = [], 0
        for stay in self.stays(host, gpu):
            if not stay.main:
                continue
            if now < stay.timeline.start:
                parts.append(lasting(NOTHING, now, stay.timeline.start))
            parts.append(stay.timeline)
            now = stay.timeline.end
        if now < self.site.span:
            parts.append(lasting(NOTHING, now, self.site.span))
        whole = joined(parts)
        for outage in self.outages:
            if outage.touches(host.name, gpu):
                whole = whole.changed(outage.start, outage.end, outage.changes)
        return whole

    def heard(self, host: Host, starts: IntArray, ends: IntArray) -> BoolArray:
        """Return which of these intervals the host's agent reported."""
        heard: BoolArray = np.ones(len(starts), dtype=np.bool_)
        for outage in self._silences(host):
            heard &= (ends <= outage.start) | (starts >= outage.end)
        return heard

    def restarts(self, host: Host, gpu: int) -> list[int]:
        """Return when the driver of a GPU was loaded anew, ascending."""
        ends = [outage.end for outage in self.outages if outage.touches(host.name, gpu) and outage.restarts_counters]
        return sorted(ends)

    def _silences(self, host: Host) -> Iterator[Outage]:
        return (outage for outage in self.outages if outage.node == host.name and outage.silences)


def _share(plan: Plan) -> str:
    """Return what the randomness of a run hangs on: runs that share a GPU show one and the same timeline."""
    return plan.number.split("_")[0] if plan.shared > 1 else plan.number
