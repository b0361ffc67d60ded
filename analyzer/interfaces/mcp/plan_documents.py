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

    solver: str = Field(description="Its source: olb, heft, random_heft, cp_sat, or the name given with the proposal.")
    makespan_seconds: int
    cost_micros: int | None = Field(description="Millionths of the prices' currency; null where a price is not known.")
    lower_bound_seconds: int | None = Field(description="Lower bound on the length of any plan.")
    is_optimal: bool = Field(description="Whether the plan is proven optimal.")
    critical: list[Said] = Field(description="The critical path; its first tasks.")
    placements: list[PlacementTold] = Field(description="By start; the first ones, `placement_count` is the total.")
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
    sku: Said | None = Field(description="The kind of GPU they ran on; null: none.")
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
    left_out: list[LeftOutTold] = Field(description="The first ones; `left_out_count` is the total.")
    left_out_count: int
    unseen: list[UnseenTold] = Field(description="The first ones; `unseen_count` is the total.")
    unseen_count: int


class Solved(Model):
    """The solver's answer."""

    problem: str = Field(description="The problem's fingerprint: return it with a proposal for this task file.")
    looked_up: LookedUpTold
    verdict: str = Field(description="no_deadline, on_time, impossible (proven), or not_found (not proven).")
    deadline_seconds: int | None
    earliest_seconds: int = Field(description="Proven lower bound on the end of any plan.")
    plan: PlanTold
    compared: dict[str, int] = Field(description="Makespan by solver, in seconds.")
    changes: list[ChangeTold] = Field(description="Compared with the plan in the task file.")


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
        description="The round of this proposal for this problem; after the third, the solver's plan is used."
    )
    rounds_left: int
    broken: list[BrokenTold] = Field(description="The first ones; `broken_count` is the total.")
    broken_count: int
    corrected: list[Said] = Field(description="Claimed figures that are wrong; the validator's replace them.")
    savings_micros: int | None = Field(
        description="Compared with the plan in the task file; null without one, or without a price."
    )
    plan: PlanTold | None = Field(description="The proposal in the validator's figures; null where it is not a plan.")
    instead: PlanTold | None = Field(description="For a proposal that is not valid: the plan to follow instead.")
    instead_is: str | None = Field(
        description="nearest: the proposal, corrected; solver: a new plan, after three rounds."
    )
    instead_is_valid: bool | None
    changes: list[ChangeTold] = Field(description="From the proposal to the nearest plan; the first ones.")


class Simulated(Model):
    """When a plan ends if durations vary as the task file says."""

    problem: str
    looked_up: LookedUpTold
    plan: PlanTold
    p10_seconds: int
    p50_seconds: int
    p90_seconds: int
    on_time_ratio: float | None = Field(description="The share of draws that meet every deadline; null without one.")
    draws: int
    tasks_without_spread: list[Said] = Field(
        description="Of tasks with the same duration in every draw: the spread is too narrow."
    )


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
