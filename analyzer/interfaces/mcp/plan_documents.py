"""A plan, what it changes and what was looked up for it, as the planning tools answer: bounded, with names marked."""

from collections.abc import Sequence

from analyzer.capacity.planner.answer import Change
from analyzer.capacity.planner.facts import unseen
from analyzer.capacity.planner.from_ledger import LookedUp
from analyzer.capacity.planner.history import History
from analyzer.capacity.planner.nearest import Nearest
from analyzer.capacity.planner.plan import Placement, Plan
from analyzer.capacity.planner.problem import Problem
from analyzer.interfaces.mcp.plan_answers import (
    ChangeTold,
    HistoryTold,
    LeftOutTold,
    LookedUpTold,
    PlacementTold,
    PlanTold,
    UnseenTold,
)
from analyzer.interfaces.mcp.untrusted import LIST_MOST, marked_or_none, marked_text, sentence

_CHANGES_TOLD, _CHAIN_TOLD = 20, 20
_PLACEMENTS_LETTERS = 24_000  # of one plan; an answer has two at most
_PLACEMENT_LETTERS = 150  # of one placement as JSON, without its names


def plan_told(plan: Plan) -> PlanTold:
    """Return a plan; of a long one the first placements."""
    return PlanTold(
        solver=plan.solver,
        makespan_seconds=plan.makespan_seconds,
        cost_micros=plan.cost_micros,
        lower_bound_seconds=plan.lower_bound_seconds,
        is_optimal=plan.is_optimal,
        critical=[marked_text(name) for name in plan.critical[:_CHAIN_TOLD]],
        placements=[
            PlacementTold(
                task=marked_text(each.task),
                node=marked_text(each.node),
                start_seconds=each.start_seconds,
                end_seconds=each.end_seconds,
            )
            for each in _fitting(plan.placements)
        ],
        placement_count=len(plan.placements),
        transferred_bytes=sum(each.bytes for each in plan.transfers if each.from_node != each.to_node),
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
    return ChangeTold(
        task=marked_text(task),
        from_node=marked_or_none(source),
        to_node=marked_or_none(target),
        shift_seconds=seconds,
        why=None if why is None else sentence(why),
    )


def looked_up_told(looked: LookedUp, problem: Problem) -> LookedUpTold:
    """Return what the ledger told, and what it did not: tasks that are kept off kinds of GPU."""
    kept_off = [*unseen(problem)]
    return LookedUpTold(
        histories=[_history(one) for one in looked.histories],
        left_out=[
            LeftOutTold(node=marked_text(one.node), why=sentence(one.why)) for one in looked.left_out[:LIST_MOST]
        ],
        left_out_count=len(looked.left_out),
        unseen=[
            UnseenTold(task=marked_text(one.task), sku=marked_or_none(one.sku), nodes=one.nodes)
            for one in kept_off[:LIST_MOST]
        ],
        unseen_count=len(kept_off),
    )


def _history(one: History) -> HistoryTold:
    return HistoryTold(
        name=marked_text(one.name),
        gpus=one.gpus,
        sku=marked_or_none(one.sku),
        runs=one.runs,
        unfinished=one.unfinished,
        p10_seconds=one.p10_seconds,
        p50_seconds=one.p50_seconds,
        p90_seconds=one.p90_seconds,
    )
