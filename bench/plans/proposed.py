"""A plan of ours as a proposal, so that it is checked as if it were a stranger's."""

from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.proposal import Claims, Placed, Proposal


def proposal_of(plan: Plan) -> Proposal:
    """Return a plan as a proposal, its own figures as claims."""
    placed = tuple(
        Placed(each.task, each.node, each.start_seconds, each.end_seconds, each.beside, each.gpus)
        for each in plan.placements
    )
    return Proposal(placed, Claims(plan.makespan_seconds, plan.cost_micros))
