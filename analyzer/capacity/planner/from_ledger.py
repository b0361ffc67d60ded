"""What a task file leaves to the ledger, looked up: durations of recurring jobs, and the inventory's nodes."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from agent.wire.units import PERMILLE, SECOND_US
from analyzer.capacity.planner.ledger import History, Ledger, NodeHolder, StockNode
from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.problem import (
    Amount,
    Duration,
    Node,
    Problem,
    ProblemError,
    Task,
    UnseenError,
    lacks_parts,
)
from analyzer.capacity.planner.task_file import TaskFile
from analyzer.errors import ConfigError
from analyzer.queries.ledger_query import QueuedRun
from analyzer.text.words import counted, plain, plain_sentence

_HOLDERS_NAMED = 2


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A node of the inventory that a plan may not use, and why."""

    node: str
    why: str


def offered(
    stock: Sequence[StockNode], groups: Collection[str], starts_at: int
) -> tuple[tuple[Node, ...], tuple[LeftOut, ...]]:
    """Return the nodes of these groups (of all where there is none), and why each of the others is left out.

    A node of which every GPU is held comes whole when the last holder's time limit ends, and is never offered without
    its GPUs: a task that must stay off GPU nodes would else land on it.

    Raises:
        ConfigError: there is no node of a group.
    """
    known = sorted({one.group for one in stock if one.group is not None})
    for group in groups:
        if group not in known:
            raise ConfigError(
                f"nodes: inventory: no node is in group {group!r}; the ledger knows {', '.join(known) or 'no group'}"
            )
    nodes, left_out = [], []
    for one in stock:
        if groups and one.group not in groups:
            continue
        node = _node(one, starts_at)
        if isinstance(node, Node):
            nodes.append(node)
        else:
            left_out.append(LeftOut(one.node, node))
    return tuple(nodes), tuple(left_out)


def _node(one: StockNode, starts_at: int) -> Node | str:
    """Return what a plan may use of a node, or why it may use nothing of it."""
    if not one.is_up:
        return "its scheduler says that it is not up"
    if one.cpu_cores is None or one.memory_bytes is None:
        return "its cores or its memory are not known"
    holders = [each for each in one.holders if each.until is None or each.until > starts_at]
    if one.gpus and not one.gpus_free and one.holders:
        return _later(one, one.cpu_cores, one.memory_bytes, starts_at)
    if one.gpus and not one.gpus_free:
        return "none of its GPUs is free, and the ledger knows no holder: drained, kept or broken"
    cores, memory = one.cores_free, one.memory_free_bytes
    if cores is None or memory is None:
        return f"how much of its cores and memory {_names(holders or one.holders)} may use is not known"
    return _offer(one, int(cores), memory, one.gpus_free, 0)


def _later(one: StockNode, cores: int, memory_bytes: int, starts_at: int) -> Node | str:
    ends = [holder.until for holder in one.holders]
    if any(end is None for end in ends):
        return f"held by {_names(one.holders)} with no known end"
    last = max(end for end in ends if end is not None)
    return _offer(one, cores, memory_bytes, one.gpus, max(0, -(-(last - starts_at) // SECOND_US)))


def _offer(one: StockNode, cores: int, memory_bytes: int, gpus: int, from_seconds: int) -> Node:
    price = one.price_micros_per_gpu_hour
    return Node(
        one.node,
        cores,
        memory_bytes,
        gpus,
        one.gpu_memory_bytes or 0,
        one.local_nvme_bytes or 0,
        one.rack,
        one.group,
        price * gpus if price is not None and gpus else None,
        from_seconds,
        one.sku,
    )


def _names(holders: Sequence[NodeHolder]) -> str:
    names = list(dict.fromkeys(plain(holder.name) for holder in holders))
    rest = len(names) - _HOLDERS_NAMED
    return ", ".join(names[:_HOLDERS_NAMED]) + (f" and {counted(rest, 'more run')}" if rest > 0 else "")


_NODES_NAMED = 3


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A task file whose problem can be made, and what of the ledger is in it.

    `runs_of` are the histories behind a task's durations, by its name and the nodes' kind. `left_out` are nodes of the
    inventory that the plan may not use, and runs of the queue that it cannot place, each with why.
    """

    file: TaskFile
    histories: tuple[History, ...] = ()
    runs_of: tuple[tuple[str, str | None, History], ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def samples(self, problem: Problem, plan: Plan) -> dict[str, tuple[int, ...]]:
        """Return the wall times behind each task's duration on the kind of GPU that the plan has it on, by its name."""
        kind = {placed.task: problem.node_by_name[placed.node].sku for placed in plan.placements}
        return {task: one.seconds for task, sku, one in self.runs_of if sku in (None, kind[task])}


def asks_ledger(file: TaskFile) -> bool:
    """Return whether a task file leaves anything to the ledger."""
    return file.nodes is None or bool(file.histories) or file.has_queue


def look_up(ledger: Ledger, file: TaskFile) -> LookedUp:
    """Return the file with durations and nodes of the ledger in their places.

    A job takes so long on a kind of GPU where it was seen there; where it was not the file's own figure is taken, and
    where that has none no task is placed.

    Raises:
        ConfigError: the ledger has too few runs of a name on every kind, or no node of a group.
        LedgerError: the ledger is empty.
    """
    left_out: tuple[LeftOut, ...] = ()
    nodes = file.nodes
    if nodes is None:
        nodes, left_out = offered(ledger.nodes(), file.inventory_groups, file.starts_at)
        if not nodes:
            raise ConfigError(_nothing(left_out))
    answers = _Answers(ledger)
    of_task = {task.name: answers.of_task(task, nodes) for task in file.tasks if _is_asked(task)}
    tasks = tuple(_timed(task, of_task.get(task.name, ())) for task in file.tasks)
    if file.has_queue:
        taken = {task.name for task in file.tasks}
        for run in ledger.queue():
            task = Task(_name_in_queue(run, taken), 0, 0, None, gpus=run.gpus, history=run.name or run.run_id)
            found, placed = _queued(answers, replace(file, nodes=nodes), task, run)
            if isinstance(placed, Task):
                of_task[task.name] = found
                tasks = (*tasks, placed)
            else:
                left_out = (*left_out, LeftOut(task.name, placed))
        if len(tasks) > len(file.tasks):
            runs = counted(len(tasks) - len(file.tasks), "run")
            left_out = (*left_out, LeftOut("queue", f"cores and memory of {runs} that wait are not known"))
        if not tasks:
            raise ConfigError("queue: no run waits that a plan could place, and the file has no tasks")
    return LookedUp(
        replace(file, tasks=tasks, nodes=nodes),
        answers.histories,
        tuple((name, kind, history) for name, found in of_task.items() for kind, history in found),
        left_out,
    )


def _name_in_queue(run: QueuedRun, taken: set[str]) -> str:
    """Return what a run that waits is called in a plan: its name and its number, or its whole id."""
    name = f"{run.name or 'run'} {run.run_id.rpartition('/')[2]}"
    name = run.run_id if name in taken else name
    taken.add(name)
    return name


def _queued(
    answers: "_Answers", file: TaskFile, task: Task, run: QueuedRun
) -> tuple[list[tuple[str | None, History]], Task | str]:
    """Return a run of the queue as a task with its histories, or why it is none.

    It takes as long as runs of its name took, on kinds of GPU on which they were seen, else as its time limit allows.
    What cores and memory it will ask for no scheduler tells, so that it counts its GPUs alone.
    """
    histories: list[tuple[str | None, History]] = []
    with suppress(UnseenError):
        histories = answers.of_task(task, file.nodes or ())
    if not histories and run.time_limit_seconds is None:
        return [], "it waits, has no time limit, and no runs of its name say how long it takes"
    limit = (
        Duration(run.time_limit_seconds, run.time_limit_seconds, run.time_limit_seconds)
        if run.time_limit_seconds
        else None
    )
    timed = _timed(task, histories) if histories else replace(task, duration=limit, history=None)
    try:
        replace(file, tasks=(timed,)).problem()
    except ProblemError as error:
        return [], f"it waits, and none of these nodes will do: {error}"
    return histories, timed


def _nothing(left_out: Sequence[LeftOut]) -> str:
    told = "; ".join(f"{plain(one.node)}: {plain_sentence(one.why)}" for one in left_out[:_NODES_NAMED])
    more = f"; and {len(left_out) - _NODES_NAMED} more" if len(left_out) > _NODES_NAMED else ""
    why = f"{told or 'the ledger knows no nodes'}{more}"
    return f"nodes: inventory has no node for a plan now ({why}); name the nodes instead"


def _is_asked(task: Task) -> bool:
    """Whether runs of the ledger are to say how long a task takes."""
    return task.history is not None and task.duration is None


@dataclass
class _Answers:
    """What the ledger has said: each name, size and kind of GPU is asked for once."""

    ledger: Ledger
    found: dict[tuple[str, int, str | None], History | UnseenError] = field(default_factory=dict)

    @property
    def histories(self) -> tuple[History, ...]:
        """What there is, in the order in which it was asked for."""
        return tuple(one for one in self.found.values() if isinstance(one, History))

    def of_task(self, task: Task, nodes: Sequence[Node]) -> list[tuple[str | None, History]]:
        """Return a task's history on each kind of GPU that it was seen on, of those that it could run on.

        Raises:
            UnseenError: it was seen on none of them, and the file does not say how long it takes.
        """
        answers = {kind: self._asked(task.history or "", task.gpus, kind) for kind in _kinds(task, nodes)}
        histories = [(kind, one) for kind, one in answers.items() if isinstance(one, History)]
        if histories or task.durations:
            return histories
        raise next((one for one in answers.values() if isinstance(one, UnseenError)), UnseenError(_no_kind(task)))

    def _asked(self, name: str, gpus: Amount, kind: str | None) -> History | UnseenError:
        if not isinstance(gpus, int):
            return UnseenError(f"duration: history: {plain(name)}: runs hold whole GPUs; give how long a part takes")
        key = (name, gpus, kind)
        if key not in self.found:
            try:
                self.found[key] = self.ledger.history(name, gpus, kind)
            except UnseenError as error:
                self.found[key] = error
        return self.found[key]


def _kinds(task: Task, nodes: Sequence[Node]) -> list[str | None]:
    """Return the kinds of GPU that a task could run on, of what is known; one that needs no GPU has no kind."""
    if not task.gpus:
        return [None]
    fitting = [node for node in nodes if lacks_parts(node, task) is None] or nodes
    return [*dict.fromkeys(node.sku for node in fitting if node.sku is not None)]


def _no_kind(task: Task) -> str:
    return (
        f"duration: history: {plain(task.history or '')}: its runs tell how long {plain(task.name)} takes on their own "
        "kind of GPU alone, and no node says which kind it has; set sku of the nodes, as in sku: H100-80GB, or how "
        "long the task takes"
    )


def _timed(task: Task, histories: Sequence[tuple[str | None, History]]) -> Task:
    """Return the task with the durations of its runs, which go before what the file says of the same kind."""
    seen = [(kind, Duration(one.p10_seconds, one.p50_seconds, one.p90_seconds, one.runs)) for kind, one in histories]
    anywhere = next((duration for kind, duration in seen if kind is None), None)
    if anywhere is not None:
        return replace(task, duration=anywhere)
    of_kinds = tuple((kind, duration) for kind, duration in seen if kind is not None)
    crossing = max((one.crossing_permille for _, one in histories if one.crossing_permille is not None), default=None)
    if crossing is not None and task.crossing_permille == (PERMILLE, PERMILLE):
        task = replace(task, crossing_permille=(crossing, crossing))
    return replace(task, durations=(*of_kinds, *task.durations))
