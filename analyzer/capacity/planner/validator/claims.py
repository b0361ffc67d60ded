"""Figures that a proposal claims, held to ours: ours stand, and each difference is said."""

from collections.abc import Iterator

from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.validator.formats import exact
from analyzer.capacity.planner.validator.proposal import Proposal
from analyzer.prices.money import dollars

_CENT_MICROS = 10_000


def corrections(proposal: Proposal, plan: Plan, savings_micros: int | None) -> Iterator[str]:
    """Yield a sentence for each claimed figure that is not what the plan comes to."""
    for placed in proposal.placements:
        end = plan.by_task[placed.task].end_seconds
        if placed.end_seconds is not None and placed.end_seconds != end:
            yield f"{placed.task} is said to end at {exact(placed.end_seconds)}; it ends at {exact(end)}"
    claims = proposal.claims
    if claims.makespan_seconds is not None and claims.makespan_seconds != plan.makespan_seconds:
        yield f"the plan is said to take {exact(claims.makespan_seconds)}; it takes {exact(plan.makespan_seconds)}"
    yield from _money("cost", claims.cost_micros, plan.cost_micros)
    yield from _money("save", claims.savings_micros, savings_micros)


def _money(verb: str, said: int | None, counted: int | None) -> Iterator[str]:
    if said is None:
        return
    if counted is None:
        why = "a price is not known" if verb == "cost" else "there is no plan to compare with, or a price is not known"
        yield f"the plan is said to {verb} {_usd(said)}; nobody can say so: {why}"
    elif abs(said - counted) > _CENT_MICROS // 2:  # who says cents is right to the cent
        yield f"the plan is said to {verb} {_usd(said)}; it {verb}s {_usd(counted)}"


def _usd(micros: int) -> str:
    return f"{'-' if micros < 0 else ''}${dollars(abs(micros))}"
