"""Check a proposed plan against its problem, from nothing but the two."""

from dataclasses import replace

from analyzer.capacity.planner.plan import Placement, Plan
from analyzer.capacity.planner.problem import Problem
from analyzer.capacity.planner.validator.claims import corrections
from analyzer.capacity.planner.validator.counted import Stay, cost_micros_of, lasts_on, stay_of, transfers_between
from analyzer.capacity.planner.validator.fingerprint import fingerprint
from analyzer.capacity.planner.validator.places import misfits, stays_of
from analyzer.capacity.planner.validator.proposal import Proposal
from analyzer.capacity.planner.validator.times import inputs_late, overfull, too_early, too_late
from analyzer.capacity.planner.validator.verdict import Broken, Verdict
from analyzer.text.words import plain, plain_sentence


def validate(problem: Problem, proposal: Proposal) -> Verdict:
    """Return every rule that the proposal breaks, and its figures counted anew.

    What exists is checked even where something does not, so that one round tells all.
    """
    stays, broken = stays_of(problem, proposal)
    names_are_good = not broken
    broken = [
        *_stale(problem, proposal),
        *broken,
        *misfits(problem, stays),
        *too_early(stays),
        *inputs_late(problem, stays),
        *overfull(stays),
        *too_late(problem, stays),
    ]
    plan = _plan(problem, stays) if names_are_good else None
    savings = None if plan is None else _savings_micros(problem, plan.cost_micros)
    corrected = () if plan is None else tuple(corrections(proposal, plan, savings))
    told = tuple(replace(each, text=plain_sentence(each.text)) for each in broken)  # names are hosts' and people's
    return Verdict(not broken, told, corrected, plan, savings)


def _stale(problem: Problem, proposal: Proposal) -> list[Broken]:
    now = fingerprint(problem)
    if proposal.problem is None or proposal.problem == now:
        return []
    text = (
        f"the proposal is for problem {plain(proposal.problem)!r}, and this one is {now!r}: tasks, nodes or times have"
        " changed since; look at the problem again and propose anew"
    )
    return [Broken("stale", text)]


def _plan(problem: Problem, stays: dict[str, Stay]) -> Plan:
    placements = [Placement(name, stay.node.name, stay.start, stay.end) for name, stay in stays.items()]
    return Plan(
        solver="said",
        placements=tuple(sorted(placements, key=lambda each: (each.start_seconds, each.task))),
        transfers=tuple(transfers_between(problem, stays)),
        cost_micros=cost_micros_of(stays.values()),
    )


def _savings_micros(problem: Problem, cost_micros: int | None) -> int | None:
    """Return how much less it costs than the plan that it replaces, by the same count."""
    nodes = {node.name: node for node in problem.nodes}
    replaced = []
    for task in problem.tasks:
        node, start = task.planned.node, task.planned.start_seconds
        if node is None or start is None:
            return None
        if lasts_on(task, nodes[node]) is None:
            return None
        replaced.append(stay_of(task, nodes[node], start))
    before = cost_micros_of(replaced)
    return None if before is None or cost_micros is None else before - cost_micros
