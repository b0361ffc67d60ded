"""The real fleet as a gang problem: pools of like nodes in each rack, runs with measured costs, the rest pinned.

A run that lost time to exchanges across racks may move, for that is what it gains; so may small runs on nodes that they
do not fill. Everyone else stays: a move that helps somebody else is not proposed to them here. Costs are
GPU-milliseconds over what is left of a run. Nodes are exchanged for their like only: GPUs, cores and local NVMe as they
are now.

A shared node that a plan empties is not used as a whole one in the same plan (see problem.py): the next plan finds
it free.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from agent.wire.units import WEEK_US
from analyzer.recommendations.fleet_plan.problem import Limits, Needs, Pool, Problem, Run, UnitKind
from analyzer.recommendations.proposal import RESTART_MS
from analyzer.recommendations.site import Site
from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class Loss:
    """One run's GPU time in the period: in all, and waiting for exchanges across racks. Money is None if unpriced."""

    team: str | None
    is_serving: bool
    milliseconds: int
    micros: int | None
    crossing_milliseconds: int
    crossing_micros: int | None
    age_us: int  # since it began


@dataclass(frozen=True, slots=True)
class Now:
    """Held GPUs by run and node, nodes that are wholly free, and losses.

    `entangled` are nodes of which a GPU has several holders, or is held in slices.
    """

    held: dict[str, dict[str, int]]  # by run: GPUs by node, in the order of ranks
    free: frozenset[str]
    entangled: frozenset[str]
    losses: dict[str, Loss]
    held_ratio: float  # of the owned time in the period, how much somebody held


def read_now(session: Session, start_us: int, end_us: int) -> Now:
    """Read the fleet at the end of a period, and what the period cost."""
    held: dict[str, dict[str, int]] = defaultdict(dict)
    entangled = set()
    for run_id, node, gpus, is_shared in session.rows(_HELD, [end_us, end_us, end_us]):
        held[run_id][node] = gpus
        if is_shared:
            entangled.add(node)
    free = {node for (node,) in session.rows(_FREE, [end_us])} - {node for nodes in held.values() for node in nodes}
    losses = {row[0]: Loss(*row[1:]) for row in session.rows(_LOSSES, [end_us, start_us, end_us])}
    ((total, spare),) = session.rows(_SPARE, [start_us, end_us])
    return Now(dict(held), frozenset(free), frozenset(entangled), losses, 1 - spare / total if total else 0.0)


# Holders of the moment: what ended before it, or begins at it, is not there.
_HELD = """
    WITH latest AS (
        SELECT alias_run_id, arg_max(run_id, batch) AS run_id FROM run_aliases GROUP BY alias_run_id
    ), names AS (
        SELECT l.alias_run_id, coalesce(n.run_id, l.run_id) AS run_id
        FROM latest l LEFT JOIN latest n ON n.alias_run_id = l.run_id
    ), holders AS (
        SELECT DISTINCT coalesce(o.run_id, a.run_id) AS run_id, node, gpu_uuid, rank
        FROM allocations a LEFT JOIN names o ON o.alias_run_id = a.run_id
        WHERE started_at < ? AND coalesce(ended_at, ?) >= ? AND gpu_uuid IS NOT NULL AND node IS NOT NULL
    ), by_gpu AS (
        SELECT *, count(DISTINCT run_id) OVER (PARTITION BY gpu_uuid) AS holders FROM holders
    )
    SELECT run_id, node, count(DISTINCT gpu_uuid), max(holders) > 1 OR bool_or(gpu_uuid IN (
        SELECT gpu_uuid FROM inventory WHERE parent_uuid IS NOT NULL AND gpu_uuid IS NOT NULL))
    FROM by_gpu GROUP BY run_id, node ORDER BY run_id, min(rank), node
"""
# Free in the newest hour: not down, drained or kept for somebody.
_FREE = """
    SELECT node FROM ledger WHERE hour = (SELECT max(hour) FROM ledger WHERE hour < ?)
    GROUP BY node HAVING bool_and(state = 'unallocated' AND cause = 'free') ORDER BY node
"""
_LOSSES = """
    SELECT l.run_id, min(r.team), coalesce(bool_or(r.stage = 'serving'), false), sum(milliseconds)::BIGINT,
        CASE WHEN count(*) = count(cost_micros) THEN sum(cost_micros)::BIGINT END,
        coalesce(sum(milliseconds) FILTER (state = 'communicating' AND cause = 'cross_rack'), 0)::BIGINT,
        CASE WHEN count(*) = count(cost_micros)
            THEN coalesce(sum(cost_micros) FILTER (state = 'communicating' AND cause = 'cross_rack'), 0)::BIGINT END,
        greatest(0, coalesce(? - min(r.started_at), 0))::BIGINT
    FROM ledger l LEFT JOIN runs r USING (run_id)
    WHERE hour >= ? AND hour < ? AND l.run_id IS NOT NULL GROUP BY l.run_id
"""
_SPARE = """
    SELECT sum(milliseconds)::BIGINT, coalesce(sum(milliseconds) FILTER (run_id IS NULL), 0)::BIGINT
    FROM ledger WHERE hour >= ? AND hour < ?
"""


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
