"""Plans over the whole fleet: runs brought into fewer racks, and small runs put together so that a node is free.

What one change cannot see a plan can: where several want the same room, who gains most by it has it. The plan is made
by ruin and recreate with a fixed seed and so many steps, so the same fleet gives the same plan; a validator that shares
no code with it looks at it before anybody else does.
"""

from dataclasses import dataclass, replace

from agent.wire.units import WEEK_US
from analyzer.recommendations.artefacts import on_nodes, pod_patch
from analyzer.recommendations.fleet_plan.fleet_problem import (
    FleetProblem,
    Loss,
    Now,
    emptied_ms,
    fleet_problem,
    lasts_us,
    read_now,
)
from analyzer.recommendations.fleet_plan.problem import Plan
from analyzer.recommendations.fleet_plan.solve import Budget, solve
from analyzer.recommendations.fleet_plan.validate import broken
from analyzer.recommendations.proposal import CROSS_RACK, Proposal, lines, proposal_of, restart
from analyzer.recommendations.recommendation import Artefact, Constraint, Move, Placement, Range, Saved
from analyzer.recommendations.saving import Share, recovered, share_of_loss, told_over_us
from analyzer.recommendations.site import Placed, Site
from collector.store.session import Session

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
