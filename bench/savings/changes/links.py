"""The order of ranks, and hosts that no longer make the others wait.

- A ring is as fast as its slowest link. Alternating between racks, four of eight hosts of a rack send over its uplinks
  at once; hashed onto as many uplinks as a spine oversubscribed 2:1 has (ECMP), most often two of four flows share
  one, which is the half rate of the unchanged run. Ordered by rack, one flow leaves each rack, and is slowed only by
  other tenants': 36.3% of jobs meet such contention (Crux, SIGCOMM'24), here on as many of the days, and have half of
  the link for that share of the exchange in which the other sends as well. That share is drawn evenly (ours): how
  long two runs' exchanges coincide, nobody publishes.
- A host whose heat is seen to: all of it where the host is replaced by another of its kind, which takes its place; all
  but a drawn rest, two fifths at most (ours), where its cooling is. Peers wait for the stragglers: as long as one
  hot host is left among a run's, they wait as before.
"""

from dataclasses import replace

import numpy as np

from agent.wire.units import DAY_MS
from bench.savings.changes.change import Change
from bench.savings.changes.pace import later, lengths_of, retimed, share_of, where
from simulator import labels
from simulator.activity import Activity, FloatArray
from simulator.large_runs import HOT_NODES, SPINE_SHARE
from simulator.plan import Run, Seat
from simulator.site import Site
from simulator.timeline import DENSE

CONTENDED = 0.363  # of jobs: Crux, SIGCOMM'24
STILL_HOT = (0.0, 0.4)


def order_ranks(run: Run, rng: np.random.Generator, change: Change, site: Site) -> Run:
    """Return the run with its hosts ordered by rack; a run whose ring does not cross less by that stays as it is."""
    nodes = list(dict.fromkeys(seat.node for seat in run.plan.seats))
    ordered = sorted(nodes, key=lambda node: (site.host(node).rack, node))
    if _crossings(ordered, site) >= _crossings(nodes, site):
        return run
    reference = run.timelines[0]
    days = 1 + site.span // DAY_MS
    coinciding = np.where(rng.random(days) < CONTENDED, rng.random(days), 0.0)
    when = np.clip(reference.edges[:-1] // DAY_MS, 0, days - 1)
    times = SPINE_SHARE * (1 + coinciding[when])
    exchanges = where(reference, lambda phase: phase.fabric > 0) & later(reference, change.since)
    lengths = np.rint(lengths_of(reference) * np.where(exchanges, times, 1.0)).astype(np.int64)
    made = retimed(run, lengths, _exchange, change.since)
    return replace(made, plan=replace(made.plan, seats=_ranked(run.plan.seats, ordered)))


def _crossings(nodes: list[str], site: Site) -> int:
    racks = [site.host(node).rack for node in nodes]
    return sum(here != there for here, there in zip(racks, racks[1:] + racks[:1], strict=True))


def _ranked(seats: tuple[Seat, ...], ordered: list[str]) -> tuple[Seat, ...]:
    """Return the same seats, ranked host by host in this order; the seats' own order is that of their roles."""
    ranks = {key: rank for rank, key in enumerate(sorted((ordered.index(seat.node), seat.gpu) for seat in seats))}
    return tuple(replace(seat, rank=ranks[ordered.index(seat.node), seat.gpu]) for seat in seats)


def _exchange(phase: Activity, times: float) -> Activity:
    if not phase.fabric:
        return phase
    made = phase.but(fabric=phase.fabric / times, nvlink=phase.nvlink / times)
    if share_of(phase, labels.CROSS_RACK) >= 0.99:  # thrown away by a failure
        return made
    inside = min(1.0, SPINE_SHARE / times)
    return made.truly(((labels.COLLECTIVE, inside), (labels.CROSS_RACK, 1 - inside)))


def cool(run: Run, rng: np.random.Generator, change: Change, _site: Site) -> Run:
    """Return the run with the cooling of some hosts seen to."""
    return _mended(run, change, rng.uniform(*STILL_HOT))


def exclude(run: Run, _rng: np.random.Generator, change: Change, _site: Site) -> Run:
    """Return the run with others of their kind in the place of some hosts."""
    return _mended(run, change, 0.0)


def _mended(run: Run, change: Change, left: float) -> Run:
    hot = {seat.node for seat in run.plan.seats} & HOT_NODES
    if not hot & set(change.nodes):
        return run
    if hot - set(change.nodes):
        pairs = zip(run.plan.seats, run.roles, strict=True)
        return replace(run, roles=tuple(_cool_role(role) if s.node in change.nodes else role for s, role in pairs))
    reference = run.timelines[0]  # of a cool host: it waits for the hot ones
    lengths = lengths_of(reference).astype(np.float64)
    computed = np.concatenate([[1.0], lengths[:-1]])
    waits = where(reference, lambda phase: phase.utilization > 0.5 and phase.sm < 0.5 and not phase.fabric)
    waits &= where(reference, lambda phase: share_of(phase, labels.STRAGGLER) > 0.99) & later(reference, change.since)
    waits &= 2 * lengths < computed  # the wait for a dead host is longer
    shorter = np.rint(np.where(waits, _waited(computed, lengths, left), lengths)).astype(np.int64)

    def rewrite(phase: Activity, _: float) -> Activity:
        if phase.limited_by_heat == 0:
            return phase
        clock = 1 - left * (1 - phase.clock)
        made = phase.but(clock=clock, power=DENSE.power * clock**2, limited_by_heat=phase.limited_by_heat * left)
        is_lost = labels.THERMAL not in dict(phase.truth)
        return made if is_lost else made.truly(((labels.COMPUTE, clock), (labels.THERMAL, 1 - clock)))

    return retimed(run, shorter, rewrite, change.since)


def _waited(computed: FloatArray, waited: FloatArray, left: float) -> FloatArray:
    """Return how long peers wait for a clock of which this part of the loss is left."""
    clock = computed / (computed + waited)
    result: FloatArray = computed * (1 / (1 - left * (1 - clock)) - 1)
    return result


def _cool_role(role: int) -> int:
    """Return the role of the same stage on a host that is not hot."""
    return role - role % 2
