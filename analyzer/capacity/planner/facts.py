"""What people see of a plan, as plain figures: terminal, page and JSON are readings of this, and none counts alone.

Moments are microseconds UTC, spans whole seconds, money millionths of the currency. None is not known.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.from_ledger import LeftOut
from analyzer.capacity.planner.ledger import History
from analyzer.capacity.planner.plan import Binding, Change, Plan, PlanAnswer, Solver, Transfer, Verdict
from analyzer.capacity.planner.problem import (
    MEDIA,
    Duration,
    Medium,
    Node,
    Planned,
    Problem,
    lacks_duration,
    lacks_parts,
)
from analyzer.text.words import counted

if TYPE_CHECKING:
    from analyzer.capacity.planner.simulation import Outlook


@dataclass(frozen=True, slots=True)
class Finish:
    """When all is done, with durations drawn between their P10 and P90 and the plan kept as it is.

    `on_time_ratio` is the share of draws that kept the deadline; None without one. `without_spread` are tasks with one
    figure for a duration; where all are, there was nothing to draw.
    """

    p10_at: int
    p50_at: int
    p90_at: int
    on_time_ratio: float | None
    draws: int
    without_spread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskFact:
    """One task where and when it runs; from `data_from_at` to `data_until_at` it waits for its inputs to travel.

    A gang runs on the nodes `beside` the first too, and has `gpus_permille` on all of them together, in thousandths.

    `slack_seconds` is how much later it could start with everything still in time.
    """

    task: str
    node: str
    rack: str | None
    group: str | None
    start_at: int
    end_at: int
    data_from_at: int
    data_until_at: int
    slack_seconds: int | None
    is_critical: bool
    deadline_at: int | None  # its own
    after: tuple[str, ...]
    duration: Duration
    array: str | None  # of which it is one of many equal tasks
    beside: tuple[str, ...]
    gpus_permille: int


@dataclass(frozen=True, slots=True)
class Unseen:
    """A task that is kept off so many nodes because nobody knows how long it takes on their kind of GPU.

    `sku` None: the kind of these nodes is not known itself.
    """

    task: str
    sku: str | None
    nodes: int


@dataclass(frozen=True, slots=True)
class Way:
    """How long the same bytes take over one medium."""

    medium: Medium
    seconds: int


@dataclass(frozen=True, slots=True)
class Handover:
    """What one task hands another: over which medium, for how long, and how long it would take over each."""

    before: str
    after: str
    from_node: str
    to_node: str
    bytes: int
    medium: Medium
    seconds: int
    ways: tuple[Way, ...]  # in the order of MEDIA


@dataclass(frozen=True, slots=True)
class Compared:
    """One solver's best plan. `above_ratio` is how far it is above what no plan can be shorter than.

    `moved_bytes` leave their node, in `moves` transfers that take `moving_seconds` together.
    """

    solver: Solver
    makespan_seconds: int
    above_ratio: float | None
    is_answer: bool
    moves: int
    moved_bytes: int
    moving_seconds: int
    cost_micros: int | None


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """One answered question. No plan ends before `earliest_at` (see `bound`); `changes` are against what was planned.

    `is_planned` says whether the file says of any task where or when it would run as things stand.
    `histories` are what durations came from; `left_out` are nodes of the inventory that no task could have, with why.
    `unseen` are tasks that could run on more nodes, were it known how long they take there.
    `links_cost_seconds` is how much later it ends where transfers that share a link slow each other down.
    """

    title: str
    timezone: str
    currency: str
    start_at: int
    end_at: int
    deadline_at: int | None
    verdict: Verdict
    earliest_at: int
    is_optimal: bool
    finish: Finish | None
    bound: Binding | None
    changes: tuple[Change, ...]
    tasks: tuple[TaskFact, ...]
    transfers: tuple[Handover, ...]
    compared: tuple[Compared, ...]
    cost_micros: int | None
    nodes: int
    is_planned: bool
    ssd_nodes: tuple[str, ...]
    links_cost_seconds: int | None
    histories: tuple[History, ...]
    left_out: tuple[LeftOut, ...]
    unseen: tuple[Unseen, ...]

    def is_ssd(self, node: str) -> bool:
        """Whether a node has a local SSD."""
        return node in self.ssd_nodes


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What stands beside an answer: the plan's name, clock and currency, what links cost, what the ledger told."""

    title: str
    timezone: str = "UTC"
    currency: str = "USD"
    links_cost_seconds: int | None = None
    histories: tuple[History, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def plan_facts(answer: PlanAnswer, outlook: "Outlook | None", told: PlanContext) -> PlanFacts:
    """Return everything that is shown of an answer; `outlook` is what drawing durations said of its plan."""
    problem, plan = answer.problem, answer.plan

    def at(seconds: int) -> int:
        return problem.starts_at + seconds * SECOND_US

    return PlanFacts(
        told.title,
        told.timezone,
        told.currency,
        problem.starts_at,
        at(plan.makespan_seconds),
        None if problem.deadline_seconds is None else at(problem.deadline_seconds),
        answer.verdict,
        at(answer.earliest_seconds),
        plan.makespan_seconds <= answer.earliest_seconds,
        None if outlook is None else _finish(outlook, problem.starts_at),
        plan.bound,
        answer.changes,
        tuple(_task(problem, plan, placement.task) for placement in plan.placements),
        tuple(_moved(problem, transfer) for transfer in plan.transfers),
        _all_compared(answer),
        plan.cost_micros,
        len(problem.nodes),
        any(task.planned != Planned() for task in problem.tasks),
        tuple(node.name for node in problem.nodes if node.ssd_bytes),
        told.links_cost_seconds,
        told.histories,
        told.left_out,
        tuple(unseen(problem)),
    )


def by_array(facts: PlanFacts) -> PlanFacts:
    """Return the facts with each array as one task, from its first start to its last end, and one that hands on."""
    size = Counter(one.array for one in facts.tasks)
    name = {one.task: one.task if one.array is None else f"{one.array} × {size[one.array]:,}" for one in facts.tasks}
    tasks: dict[str, list[TaskFact]] = defaultdict(list)
    for one in facts.tasks:
        tasks[name[one.task]].append(one)
    moved: dict[tuple[str, ...], list[Handover]] = defaultdict(list)
    for each in facts.transfers:
        key = (name.get(each.before, each.before), name.get(each.after, each.after), each.medium)
        moved[key if key[:2] != (each.before, each.after) else (each.before, each.after)].append(each)
    return replace(
        facts,
        tasks=tuple(_one_task(called, many) for called, many in tasks.items()),
        transfers=tuple(_one_transfer(called, many) for called, many in moved.items()),
    )


def _one_task(name: str, many: Sequence[TaskFact]) -> TaskFact:
    nodes = {node for one in many for node in (one.node, *one.beside)}
    if len(many) == 1:
        return many[0] if len(nodes) == 1 else replace(many[0], node=f"{many[0].node} + {len(many[0].beside):,}")
    slacks = [one.slack_seconds for one in many]
    return replace(
        many[0],
        task=name,
        node=many[0].node if len(nodes) == 1 else counted(len(nodes), "node"),
        rack=many[0].rack if len({one.rack for one in many}) == 1 else None,
        group=many[0].group if len({one.group for one in many}) == 1 else None,
        end_at=max(one.end_at for one in many),
        slack_seconds=min((one for one in slacks if one is not None), default=None),
        is_critical=any(one.is_critical for one in many),
    )


def _one_transfer(names: Sequence[str], many: Sequence[Handover]) -> Handover:
    first = many[0]
    sources, targets = {one.from_node for one in many}, {one.to_node for one in many}
    return replace(
        first,
        before=names[0],
        after=names[1],
        from_node=first.from_node if len(sources) == 1 else counted(len(sources), "node"),
        to_node=first.to_node if len(targets) == 1 else counted(len(targets), "node"),
        bytes=sum(one.bytes for one in many),
    )


def unseen(problem: Problem) -> Iterator[Unseen]:
    """Yield the kinds of GPU that a task, or an array, could run on, were it known how long it takes there."""
    for name, task in {task.array or task.name: task for task in problem.tasks}.items():
        if task.durations:
            share = problem.shapes[task.name][0].share
            missed = [node for node in problem.nodes if lacks_duration(node, share) and not lacks_parts(node, share)]
            yield from (Unseen(name, sku, nodes) for sku, nodes in Counter(node.sku for node in missed).items())


def _finish(outlook: "Outlook", start: int) -> Finish:
    p10, p50, p90 = (
        start + seconds * SECOND_US for seconds in (outlook.p10_seconds, outlook.p50_seconds, outlook.p90_seconds)
    )
    return Finish(p10, p50, p90, outlook.on_time_ratio, outlook.draws, outlook.tasks_without_spread)


def _task(problem: Problem, plan: Plan, name: str) -> TaskFact:
    placement, task = plan.by_task[name], problem.task_by_name[name]
    node: Node = problem.node_by_name[placement.node]
    duration = problem.duration_on(task, placement.nodes, placement.gpus)
    before = max((plan.by_task[each.task].end_seconds for each in task.inputs), default=placement.start_seconds)
    arrived = max((one.end_seconds for one in plan.transfers if one.after == name), default=before)
    return TaskFact(
        name,
        node.name,
        node.rack,
        node.group,
        problem.starts_at + placement.start_seconds * SECOND_US,
        problem.starts_at + placement.end_seconds * SECOND_US,
        problem.starts_at + before * SECOND_US,
        problem.starts_at + max(before, arrived) * SECOND_US,
        placement.slack_seconds,
        name in plan.critical,
        None if task.deadline_seconds is None else problem.starts_at + task.deadline_seconds * SECOND_US,
        tuple(each.task for each in task.inputs),
        duration,
        task.array,
        placement.beside,
        int((task.gpus if placement.gpus is None else placement.gpus) * 1000),
    )


def _moved(problem: Problem, transfer: Transfer) -> Handover:
    return Handover(
        transfer.before,
        transfer.after,
        transfer.from_node,
        transfer.to_node,
        transfer.bytes,
        transfer.medium,
        transfer.end_seconds - transfer.start_seconds,
        tuple(Way(medium, problem.network.seconds(medium, transfer.bytes)) for medium in MEDIA),
    )


def _all_compared(answer: PlanAnswer) -> tuple[Compared, ...]:
    """Return each solver's shortest plan, and the one to follow where that is another: it changes less."""
    compared = tuple(_compared(one, answer) for one in answer.compared)
    if any(one.is_answer for one in compared):
        return compared
    return (*compared, _compared(answer.plan, answer))


def _compared(plan: Plan, answer: PlanAnswer) -> Compared:
    between = [one for one in plan.transfers if one.medium != "local" and one.bytes]
    earliest = answer.earliest_seconds
    return Compared(
        plan.solver,
        plan.makespan_seconds,
        plan.makespan_seconds / earliest - 1 if earliest > 0 else None,
        plan.placements == answer.plan.placements and plan.solver == answer.plan.solver,
        len(between),
        sum(one.bytes for one in between),
        sum(one.end_seconds - one.start_seconds for one in between),
        plan.cost_micros,
    )
