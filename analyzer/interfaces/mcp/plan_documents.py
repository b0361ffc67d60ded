"""A plan, what it changes and what was looked up for it, as the planning tools answer: bounded, with names marked."""

from collections.abc import Sequence

from pydantic import Field

from analyzer.capacity.planner.facts import unseen
from analyzer.capacity.planner.from_ledger import LookedUp
from analyzer.capacity.planner.nearest import Nearest
from analyzer.capacity.planner.plan import Change, Placement, Plan
from analyzer.capacity.planner.problem import Problem
from analyzer.interfaces.mcp.untrusted import LIST_MOST, Said
from analyzer.reports.document import Model


class PlacementTold(Model):
    """One task on one node; seconds count from the plan's start."""

    task: Said
    node: Said
    start_seconds: int
    end_seconds: int


class PlanTold(Model):
    """One plan, its figures counted by us."""

    solver: str = Field(description="Who made it: olb, heft, random_heft, cp_sat, or said by whoever proposed it.")
    makespan_seconds: int
    cost_micros: int | None = Field(description="Millionths of the prices' currency; null where a price is not known.")
    lower_bound_seconds: int | None = Field(description="What no plan can be shorter than.")
    is_optimal: bool = Field(description="Whether it is proven that no plan is shorter.")
    critical: list[Said] = Field(description="The chain of tasks that makes it as long as it is; the first of them.")
    placements: list[PlacementTold] = Field(description="By start; the first of them, `placement_count` counts all.")
    placement_count: int
    transferred_bytes: int = Field(description="Between nodes.")


class ChangeTold(Model):
    """One task that runs elsewhere or later than was planned or proposed, and why."""

    task: Said
    from_node: Said | None
    to_node: Said | None
    shift_seconds: int
    why: Said | None


class HistoryTold(Model):
    """How long the completed runs of one name, size and kind of GPU took; `unfinished` ones count in no figure."""

    name: Said
    gpus: int
    sku: Said | None = Field(description="The kind of GPU that they ran on; null: they held none.")
    runs: int
    unfinished: int
    p10_seconds: int
    p50_seconds: int
    p90_seconds: int


class LeftOutTold(Model):
    """A node of the inventory that no task could have, and why."""

    node: Said
    why: Said


class UnseenTold(Model):
    """A task that no plan puts on nodes of a kind of GPU, because nobody knows how long it takes there.

    Say it in the task's duration, by kind. `sku` null: the file does not say the kind of these nodes.
    """

    task: Said
    sku: Said | None
    nodes: int


class LookedUpTold(Model):
    """What the ledger told where the task file left it to the ledger; empty where it left nothing."""

    histories: list[HistoryTold]
    left_out: list[LeftOutTold] = Field(description="The first of them; `left_out_count` counts all.")
    left_out_count: int
    unseen: list[UnseenTold] = Field(description="The first of them; `unseen_count` counts all.")
    unseen_count: int


class Solved(Model):
    """The solver's answer."""

    problem: str = Field(description="The problem's fingerprint: give it back with a proposal for this task file.")
    looked_up: LookedUpTold
    verdict: str = Field(description="no_deadline, on_time, impossible (proven), or not_found (not proven).")
    deadline_seconds: int | None
    earliest_seconds: int = Field(description="What no plan can end before, proven.")
    plan: PlanTold
    compared: dict[str, int] = Field(description="Makespan by solver, in seconds.")
    changes: list[ChangeTold] = Field(description="Against what the task file says is planned.")


class BrokenTold(Model):
    """One rule that the proposal breaks, with the figures and the way out."""

    rule: str
    says: Said


class Validated(Model):
    """What the validator says of a proposal; every figure is its own, none is the proposal's."""

    problem: str = Field(description="The problem's fingerprint.")
    looked_up: LookedUpTold
    is_valid: bool
    round: int = Field(
        description="Which proposal for this problem that was; after the third the solver's plan stands."
    )
    rounds_left: int
    broken: list[BrokenTold] = Field(description="The first of them; `broken_count` counts all.")
    broken_count: int
    corrected: list[Said] = Field(description="Figures that were claimed and are wrong; ours stand in their place.")
    savings_micros: int | None = Field(
        description="Against what is planned; null where nothing is, or a price is not known."
    )
    plan: PlanTold | None = Field(description="The proposal in our figures; null where no plan can be made of it.")
    instead: PlanTold | None = Field(description="Of a proposal that is not valid: the plan to follow in its place.")
    instead_is: str | None = Field(description="nearest: the proposal mended; solver: made anew, after three rounds.")
    instead_is_valid: bool | None
    changes: list[ChangeTold] = Field(description="From the proposal to the nearest plan; the first of them.")


class Simulated(Model):
    """When a plan ends if durations vary as the task file says."""

    problem: str
    looked_up: LookedUpTold
    plan: PlanTold
    p10_seconds: int
    p50_seconds: int
    p90_seconds: int
    on_time_ratio: float | None = Field(description="The share of draws that keep every deadline; null without one.")
    draws: int
    tasks_without_spread: list[Said] = Field(description="Of one duration in every draw: the spread is too narrow.")


_CHANGES_TOLD, _CHAIN_TOLD = 20, 20
_PLACEMENTS_LETTERS = 24_000  # of one plan; an answer has two at most
_PLACEMENT_LETTERS = 150  # of one placement as JSON, without its names


def plan_told(plan: Plan) -> PlanTold:
    """Return a plan; of a long one the first placements."""
    return PlanTold.model_validate(
        {
            "solver": plan.solver,
            "makespan_seconds": plan.makespan_seconds,
            "cost_micros": plan.cost_micros,
            "lower_bound_seconds": plan.lower_bound_seconds,
            "is_optimal": plan.is_optimal,
            "critical": plan.critical[:_CHAIN_TOLD],
            "placements": _fitting(plan.placements),
            "placement_count": len(plan.placements),
            "transferred_bytes": sum(each.bytes for each in plan.transfers if each.from_node != each.to_node),
        }
    )


def _fitting(placements: Sequence[Placement]) -> Sequence[Placement]:
    """Return the first placements, as many as fit into an answer: names may be short or long."""
    room = _PLACEMENTS_LETTERS
    for number, each in enumerate(placements):
        room -= _PLACEMENT_LETTERS + len(each.task) + len(each.node)
        if room < 0:
            return placements[:number]
    return placements


def changes_told(changes: Sequence[Change]) -> list[ChangeTold]:
    """Return what the solver's plan changes of what was planned."""
    return [_change(each.task, each.from_node, each.to_node, each.delay_seconds) for each in changes[:_CHANGES_TOLD]]


def mendings_told(found: Nearest) -> list[ChangeTold]:
    """Return what the nearest plan changes of the one that was proposed."""
    moved = [_change(each.task, each.from_node, each.to_node, 0, each.why) for each in found.moved]
    shifted = [_change(each.task, None, None, each.to_seconds - each.from_seconds, each.why) for each in found.shifted]
    return [*moved, *shifted][:_CHANGES_TOLD]


def _change(task: str, source: str | None, target: str | None, seconds: int, why: str | None = None) -> ChangeTold:
    words = {"task": task, "from_node": source, "to_node": target, "why": why}
    return ChangeTold.model_validate({**words, "shift_seconds": seconds})


def looked_up_told(looked: LookedUp, problem: Problem) -> LookedUpTold:
    """Return what the ledger told, and what it did not: tasks that are kept off kinds of GPU."""
    kept_off = [*unseen(problem)]
    return LookedUpTold.model_validate(
        {
            "histories": looked.histories,
            "left_out": looked.left_out[:LIST_MOST],
            "left_out_count": len(looked.left_out),
            "unseen": kept_off[:LIST_MOST],
            "unseen_count": len(kept_off),
        }
    )
