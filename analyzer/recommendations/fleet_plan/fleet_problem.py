"""The real fleet as a gang problem: pools of like nodes in each rack, runs with measured costs, the rest pinned.

A run that lost time to exchanges across racks may move, for that is what it gains; so may small runs on nodes that they
do not fill. Everyone else stays: a move that helps somebody else is not proposed to them here. Costs are
GPU-milliseconds over what is left of a run. Nodes are exchanged for their like only: GPUs, cores and local NVMe as they
are now.

A shared node that a plan empties is not used as a whole one in the same plan (see gang/problem.py): the next plan finds
it free.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import WEEK_US
from analyzer.recommendations.fleet_plan.fleet_now import Now
from analyzer.recommendations.fleet_plan.problem import Limits, Needs, Pool, Problem, Run, UnitKind
from analyzer.recommendations.proposal import RESTART_MS
from analyzer.recommendations.site import Site

_MOVED_SHARE_MAX = 20  # a twentieth of the fleet moves at once (as the guards say), or one gang where that is more
_SMALL_GPUS = 4  # a run of more fills most of a node
_TIDY_MS = 1  # of each GPU that moves: of two plans as good, the one that moves fewer


@dataclass(frozen=True, slots=True)
class FleetProblem:
    """The problem, and which nodes its pools are made of."""

    problem: Problem
    nodes: dict[str, tuple[str, ...]]  # by pool


def fleet_problem(site: Site, now: Now, period_us: int) -> FleetProblem:
    """Return the problem at the moment; nodes of unknown rack or kind, and what hangs on them, are left out.

    So are nodes out of service, and those of which more is held than the ledger has: who holds what is not known there.
    """
    taken: dict[str, int] = defaultdict(int)
    for nodes in now.held.values():
        for node, gpus in nodes.items():
            taken[node] += gpus
    known = {
        name
        for name, host in site.hosts.items()
        if host.rack and host.sku and host.gpus >= max(1, taken[name]) and host.state in (None, "up")
    } - now.entangled
    is_whole = {
        run: all(n == site.hosts[node].gpus for node, n in nodes.items() if node in known)
        for run, nodes in now.held.items()
    }
    included = {
        run
        for run, nodes in now.held.items()
        if known.issuperset(nodes) and _is_one_kind(site, nodes) and (is_whole[run] or len(nodes) == 1)
    }
    pools = _Pools(site)
    whole = {node for run in included if is_whole[run] for node in now.held[run]} | (now.free & known)
    for node in sorted(whole):
        pools.add_whole(node)
    used: dict[str, int] = defaultdict(int)
    for run, nodes in now.held.items():
        for node, gpus in nodes.items():
            used[node] += gpus if run not in included else 0
    shared = {node for run in included if not is_whole[run] for node in now.held[run]}
    # One worth for all: were that of a node its own runs', the plan would empty the one whose runs last the longest.
    lasts = sorted(lasts_us(now, node) for node in shared)
    usual_us = lasts[len(lasts) // 2] if lasts else 0
    for node in sorted(shared):
        gpus = site.hosts[node].gpus
        worth = int(gpus * usual_us // 1000 * now.held_ratio) if used[node] == 0 else 0
        pools.add_shared(node, gpus - used[node], worth)
    runs = tuple(_run(site, now, pools, run, is_whole[run], period_us) for run in sorted(included))
    gpus = sum(host.gpus for host in site.hosts.values())
    largest = max((run.units * run.needs.gpus_per_unit for run in runs if not run.pinned), default=0)
    limits = Limits(max(gpus // _MOVED_SHARE_MAX, largest))
    return FleetProblem(
        Problem(pools.made(), runs, limits), {name: tuple(nodes) for name, nodes in pools.nodes.items()}
    )


def _remaining_us(now: Now, run: str) -> int:
    """Return how much longer a run is taken to go on: as long as it has, a week at most.

    The median of what remains is about the age: Harchol-Balter and Downey, Exploiting Process Lifetime Distributions
    for Dynamic Load Balancing, 1997.
    """
    return min(WEEK_US, now.losses[run].age_us) if run in now.losses else 0


def lasts_us(now: Now, node: str, without: Sequence[str] = ()) -> int:
    """Return how long until the last run of a node is taken to end."""
    return max(
        (_remaining_us(now, run) for run, nodes in now.held.items() if node in nodes and run not in without), default=0
    )


def emptied_ms(site: Site, now: Now, node: str) -> int:
    """Return what an emptied node gives: its GPU time until its last run had ended, as far as the fleet is held."""
    return int(site.hosts[node].gpus * lasts_us(now, node) // 1000 * now.held_ratio)


def _is_one_kind(site: Site, nodes: dict[str, int]) -> bool:
    return len({_sku(site, node) for node in nodes}) == 1


def _sku(site: Site, node: str) -> str:
    """Return what must be the same for a node to do instead of another, as one word."""
    host = site.hosts[node]
    return (
        f"{host.sku}, {host.gpus} GPUs, {host.cpu_cores or '?'} cores, {'NVMe' if host.local_nvme_bytes else 'no NVMe'}"
    )


class _Pools:
    """Pools while nodes are put into them."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.nodes: dict[str, list[str]] = {}
        self.of_node: dict[str, str] = {}
        self._kinds: dict[str, tuple[str, UnitKind, int, int]] = {}  # rack, kind, units of each node, open cost

    def add_whole(self, node: str) -> None:
        host, sku = self.site.hosts[node], _sku(self.site, node)
        self._add(f"{host.rack}: {sku}", node, UnitKind(sku, host.gpus), 1, 0)

    def add_shared(self, node: str, gpus: int, worth: int) -> None:
        """Add a node whose GPUs are given singly, and what it is worth when it is empty."""
        self._add(f"node {node}", node, UnitKind(_sku(self.site, node), 1, shared=True), gpus, worth)

    def _add(self, name: str, node: str, kind: UnitKind, units: int, open_cost: int) -> None:
        host = self.site.hosts[node]
        self._kinds.setdefault(name, (host.rack or "", kind, units, open_cost))
        self.nodes.setdefault(name, []).append(node)
        self.of_node[node] = name

    def made(self) -> tuple[Pool, ...]:
        """Return the pools."""
        return tuple(
            Pool(name, rack, kind, units * len(self.nodes[name]), cost)
            for name, (rack, kind, units, cost) in self._kinds.items()
        )


def _run(site: Site, now: Now, pools: _Pools, run: str, is_whole: bool, period_us: int) -> Run:
    nodes, loss = now.held[run], now.losses.get(run)
    gpus = sum(nodes.values())
    held: dict[str, int] = defaultdict(int)
    for node, n in nodes.items():
        held[pools.of_node[node]] += 1 if is_whole else n
    racks = len({site.hosts[node].rack for node in nodes})
    crossing = loss.crossing_milliseconds * _remaining_us(now, run) // period_us if loss and racks > 1 else 0
    is_small = not is_whole and gpus <= _SMALL_GPUS
    per_unit = site.hosts[next(iter(nodes))].gpus if is_whole else 1
    return Run(
        id=run,
        units=sum(held.values()),
        needs=Needs(frozenset({_sku(site, next(iter(nodes)))}), per_unit, shared=not is_whole),
        held=tuple(held.items()),
        span_cost=crossing // (racks - 1) if racks > 1 else 0,
        move_cost=_TIDY_MS * per_unit,
        restart_cost=RESTART_MS * gpus,
        pinned=bool(loss and loss.is_serving) or not (crossing or is_small),
    )
