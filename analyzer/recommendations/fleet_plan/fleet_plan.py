"""Plans over the whole fleet: runs brought into fewer racks, and small runs put together so that a node is free.

What one change cannot see a plan can: where several want the same room, who gains most by it has it. The plan is made
by ruin and recreate with a fixed seed and so many steps, so the same fleet gives the same plan; a validator that shares
no code with it looks at it before anybody else does.

The real fleet as a gang problem: pools of like nodes in each rack, runs with measured costs, the rest pinned.

A run that lost time to exchanges across racks may move, for that is what it gains; so may small runs on nodes that they
do not fill. Everyone else stays: a move that helps somebody else is not proposed to them here. Costs are
GPU-milliseconds over what is left of a run. Nodes are exchanged for their like only: GPUs, cores and local NVMe as they
are now.

A shared node that a plan empties is not used as a whole one in the same plan (see problem.py): the next plan finds
it free.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.wire.units import WEEK_US
from analyzer.recommendations.artefacts import on_nodes, pod_patch
from analyzer.recommendations.fleet_plan.problem import Limits, Needs, Plan, Pool, Problem, Run, UnitKind
from analyzer.recommendations.fleet_plan.solve import Budget, solve
from analyzer.recommendations.fleet_plan.validate import broken
from analyzer.recommendations.proposal import CROSS_RACK, RESTART_MS, Proposal, lines, proposal_of, restart
from analyzer.recommendations.recommendation import (
    Artefact,
    Constraint,
    Move,
    Placement,
    Range,
    Saved,
    Share,
    recovered,
    share_of_loss,
    told_over_us,
)
from analyzer.recommendations.site import Placed, Site
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


_BUDGET = Budget(iterations=4_000, seconds=10.0, seed=1)
# Of what crossing racks cost, when a rack fewer is crossed. An assumption until realised savings calibrate it.
_CO_LOCATED = Share(500, 750, 900)
# Of the time that an emptied node could be held, as the fleet is: somebody who wants it whole must come. Also assumed.
_EMPTIED = Share(500, 750, 1000)


def plans(session: Session, site: Site, start_us: int, end_us: int, seconds: float = _BUDGET.seconds) -> list[Proposal]:
    """Return the moves of one plan for the fleet as it is at the end of the period, each a change of its own.

    `seconds` end the search early; where they do, the same fleet may give another plan on a slower machine.
    """
    return planned(site, read_now(session, start_us, end_us), end_us - start_us, seconds)


def planned(site: Site, now: Now, period_us: int, seconds: float = _BUDGET.seconds) -> list[Proposal]:
    """Return the moves that are worth their restart, given the fleet; none where the plan breaks a rule."""
    fleet = fleet_problem(site, now, period_us)
    plan = solve(fleet.problem, replace(_BUDGET, seconds=seconds))
    if broken(fleet.problem, plan):
        raise AssertionError(f"BUG: the plan of the fleet breaks a rule: {broken(fleet.problem, plan)[0]}")
    placed = _Placed(site, now, fleet, plan, told_over_us(period_us))
    runs = [move.run_id for move in plan.moves]
    spread = [run for run in runs if not fleet.problem.run_by_id[run].needs.shared]
    found = [placed.co_locate(run) for run in spread]
    found += placed.consolidate([run for run in runs if run not in spread])
    return [one for one in found if one is not None]


@dataclass(frozen=True, slots=True)
class _Target:
    nodes: tuple[str, ...]
    after: tuple[str, ...]  # runs that must leave first


class _Placed:
    """The plan in nodes: who goes to which, who must leave first."""

    def __init__(self, site: Site, now: Now, fleet: FleetProblem, plan: Plan, over_us: int) -> None:
        self.site, self.now, self.fleet, self.plan, self.over_us = site, now, fleet, plan, over_us
        self.targets: dict[str, _Target] = {}
        kept = {run: self._kept(run) for run in plan.placed}
        owner = {node: run for run, nodes in now.held.items() for node in nodes}
        taken = {node for nodes in kept.values() for node in nodes}
        for move in plan.moves:
            nodes, after = list(kept[move.run_id]), list[str]()
            is_shared = fleet.problem.run_by_id[move.run_id].needs.shared
            for pool, units in move.to:
                room = [node for node in fleet.nodes[pool] if is_shared or node not in taken]
                room.sort(key=lambda node: (node not in now.free, node))  # free today before free after another's move
                chosen = room[:1] if is_shared else room[:units]
                if not is_shared:
                    taken.update(chosen)
                    after += [owner[node] for node in chosen if node in owner]
                nodes += chosen
            self.targets[move.run_id] = _Target(tuple(nodes), tuple(dict.fromkeys(after)))

    def _kept(self, run: str) -> list[str]:
        """Return the nodes that a run keeps: of each pool as many as it is given there, in the order of ranks."""
        kept, left = [], dict(self.plan.placed[run])
        is_shared = self.fleet.problem.run_by_id[run].needs.shared
        pool_of = {node: pool for pool, nodes in self.fleet.nodes.items() for node in nodes}
        for node in self.now.held[run]:
            pool = pool_of[node]
            if left.get(pool, 0) > 0:
                kept.append(node)
                left[pool] -= self.now.held[run][node] if is_shared else 1
        return kept

    def _move(self, run: str) -> Move:
        gpus = sum(self.now.held[run].values())
        sku = self.site.hosts[next(iter(self.now.held[run]))].sku
        return Move(
            *(
                Placement(tuple(nodes), tuple(self.site.hosts[node].rack for node in nodes), gpus, sku)
                for nodes in (self.now.held[run], self.targets[run].nodes)
            )
        )

    def co_locate(self, run: str) -> Proposal | None:
        """Return the change of one run that takes fewer racks; None where its racks are as many as before."""
        move, loss, target = self._move(run), self.now.losses[run], self.targets[run]
        before, after = _racks(move.from_), _racks(move.to)
        if len(after) >= len(before):
            return None
        gpus = sum(self.now.held[run].values())
        words, moving = restart(gpus)
        share = share_of_loss(_CO_LOCATED, len(before) - len(after), len(before) - 1)
        facts = {
            "held": len(self.now.held[run]),
            "before": len(before),
            "racks_before": ", ".join(before),
            "racks_after": f"one rack, {after[0]}," if len(after) == 1 else f"{len(after)} racks",
            "nodes": ", ".join(target.nodes),
            "after": ", ".join(after),
        }
        return proposal_of(
            "co_locate",
            facts=facts,
            saves=share,
            artefacts=self._lines(run),
            move=move,
            constraints=(*self._constraints(run), self._room(target)),
            cost_to_move=words,
            moving_gpu_ms=moving,
            subject=run,
            team=loss.team,
            cause=CROSS_RACK[1],
            run_ids=(run,),
            milliseconds=loss.crossing_milliseconds,
            micros=loss.crossing_micros,
        )

    def consolidate(self, runs: list[str]) -> list[Proposal]:
        """Return for each node that is left by all its runs the one change that empties it."""
        found = []
        leaving: dict[str, list[str]] = {}
        for run in runs:
            leaving.setdefault(next(iter(self.now.held[run])), []).append(run)
        arriving = {node for run in runs for node in self.targets[run].nodes}
        for node, movers in sorted(leaving.items()):
            stay = [run for run, nodes in self.now.held.items() if node in nodes and run not in movers]
            if not stay and node not in arriving and self._is_shorter(node, movers, runs):
                found.append(self._emptied(node, movers))
        return found

    def _is_shorter(self, node: str, movers: list[str], moving: list[str]) -> bool:
        """Whether a run that stays keeps each target open as long: else one node is freed by holding another longer."""
        lasts = lasts_us(self.now, node)
        return all(lasts_us(self.now, self.targets[run].nodes[0], moving) >= lasts for run in movers)

    def _emptied(self, node: str, runs: list[str]) -> Proposal:
        host, moves = self.site.hosts[node], [self._move(run) for run in runs]
        gpus = sum(self.now.held[run][node] for run in runs)
        words, moving = restart(gpus)
        losses = [self.now.losses[run] for run in runs if run in self.now.losses]
        freed = emptied_ms(self.site, self.now, node) * self.over_us // WEEK_US
        targets = tuple(dict.fromkeys(name for run in runs for name in self.targets[run].nodes))
        teams = {loss.team for loss in losses}
        facts = {
            "runs": "small run" if len(runs) == 1 else f"{len(runs)} small runs",
            "gpus": gpus,
            "host": host,
            "targets": ", ".join(targets),
        }
        return proposal_of(
            "consolidate",
            facts=facts,
            saves=Saved(recovered(freed, self.over_us, _EMPTIED), _priced(freed, self.over_us, losses)),
            artefacts=tuple(line for run in runs for line in self._lines(run, told=True)),
            move=moves[0] if len(moves) == 1 else _together(moves),
            constraints=tuple(dict.fromkeys(one for run in runs for one in self._constraints(run))),
            cost_to_move=words,
            moving_gpu_ms=moving,
            subject=f"node {node}",
            team=teams.pop() if len(teams) == 1 else None,
            cause="fragmented",
            confidence="low",
            run_ids=tuple(runs),
        )

    def _lines(self, run: str, *, told: bool = False) -> tuple[Artefact, ...]:
        """Return what puts a run on its nodes, for its own scheduler; `told` says of which of several it is."""
        nodes, placed = self.targets[run].nodes, self.site.runs.get(run) or Placed(run, (), 0, None)
        patch, note = pod_patch(placed, on_nodes(nodes)), f"of {placed.called} ({run})"
        return lines("nodelist_of" if told else "nodelist", placed, nodes=nodes, note=note, patch=patch)

    def _constraints(self, run: str) -> list[Constraint]:
        """Return what the plan's checks say of one run, in its own numbers."""
        about = self.fleet.problem.run_by_id[run]
        target = self.targets[run].nodes
        limit = self.fleet.problem.limits.moved_gpus_max
        return [
            Constraint("node type", True, f"{next(iter(about.needs.skus))}, as now: {', '.join(target)}"),
            Constraint("gang", True, f"{run}: whole, its GPUs now are {sum(self.now.held[run].values())}"),
            Constraint("moves at once", True, f"{self.plan.moved_gpus} GPUs move in this plan, the limit is {limit}"),
            Constraint("partition", None, f"whether {run} may be given {', '.join(target)} is up to the scheduler"),
        ]

    @staticmethod
    def _room(target: _Target) -> Constraint:
        if target.after:
            return Constraint("room", None, f"free once these have moved: {', '.join(target.after)}")
        return Constraint("room", True, "free at the end of the period")


def _racks(place: Placement | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rack for rack in place.racks if rack is not None)) if place else ()


def _priced(milliseconds: int, over_us: int, losses: list[Loss]) -> Range | None:
    """Return GPU time in money at the rate that these runs have paid, which are on nodes of that kind."""
    if not losses or any(loss.micros is None for loss in losses):
        return None
    time = sum(loss.milliseconds for loss in losses)
    if time == 0:
        return None
    return recovered(milliseconds * sum(loss.micros or 0 for loss in losses) // time, over_us, _EMPTIED)


def _together(moves: list[Move]) -> Move:
    """Return the moves of several runs as one, nodes in order and each once."""
    return Move(*(_sum([getattr(move, side) for move in moves]) for side in ("from_", "to")))


def _sum(places: list[Placement]) -> Placement:
    racks = {node: rack for place in places for node, rack in zip(place.nodes, place.racks, strict=True)}
    return Placement(tuple(racks), tuple(racks.values()), sum(place.gpus for place in places), places[0].sku)
