"""The shortest plan of a few tasks by trying everything: each node for each task, in each order. No solver's code.

In one of the orders every shortest plan is made by starting each task as soon as its inputs and its node let it: what
starts later than it could may start then, without making anything later.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product

from analyzer.capacity.planner.problem import Node, Problem, Task


@dataclass(frozen=True, slots=True)
class Put:
    """A task on a node, from start to end in seconds."""

    task: Task
    node: Node
    start: int
    end: int


def tries(problem: Problem) -> int:
    """Return how many combinations of nodes there are; the example of four tasks has 256."""
    return int(len(problem.nodes) ** len(problem.tasks))


def shortest(problem: Problem) -> list[Put]:
    """Return a plan than which none is shorter, of those that miss the tasks' own deadlines least."""
    best: list[Put] | None = None
    orders = [order for order in permutations(problem.tasks) if _is_in_order(order)]
    for nodes in product(problem.nodes, repeat=len(problem.tasks)):
        chosen = {task.name: node for task, node in zip(problem.tasks, nodes, strict=True)}
        if not all(may_run(task, chosen[task.name]) for task in problem.tasks):
            continue
        for order in orders:
            put = _early(problem, order, chosen)
            if best is None or length(put) < length(best):
                best = put
    if best is None:
        raise AssertionError("BUG: a problem that was taken has no plan")
    return best


def makespan(put: Sequence[Put]) -> int:
    """Return when the last task ends."""
    return max(each.end for each in put)


def length(put: Sequence[Put]) -> tuple[int, int]:
    """Return by how much tasks miss their own deadlines, all together, and when the last one ends."""
    late = [max(0, each.end - each.task.deadline_seconds) for each in put if each.task.deadline_seconds is not None]
    return sum(late), makespan(put)


def may_run(task: Task, node: Node) -> bool:
    """Return whether the node, empty, suits the task."""
    return (
        task.node in (None, node.name)
        and task.group in (None, node.group)
        and not (task.avoids_gpu_nodes and node.gpus)
        and not (task.needs_ssd and not node.ssd_bytes)
        and not (task.gpus and task.hbm_bytes > node.hbm_bytes)
        and lasts(task, node) is not None
        and has_room([task], node)
    )


def lasts(task: Task, node: Node) -> int | None:
    """Return how long the task takes on the node; None where nobody knows it on GPUs of its kind."""
    if task.duration is not None:
        return task.duration.p50_seconds
    for kind, duration in task.durations:
        if kind == node.sku:
            return duration.p50_seconds
    return None


def has_room(tasks: Sequence[Task], node: Node) -> bool:
    """Return whether the node carries these at once."""
    return (
        sum(task.cpus for task in tasks) <= node.cpus
        and sum(task.memory_bytes for task in tasks) <= node.memory_bytes
        and sum(task.gpus for task in tasks) <= node.gpus
        and sum(task.ssd_bytes for task in tasks) <= node.ssd_bytes
    )


def arrival(problem: Problem, before: Put, node: Node, size_bytes: int) -> int:
    """Return when so many bytes of what `before` made are on the node."""
    network = problem.network
    if before.node.name == node.name:
        rate = network.local
    elif network.path == "storage":
        rate = network.storage
    else:
        rate = network.rack if node.rack and node.rack == before.node.rack else network.cross_rack
    seconds = 0
    while seconds * rate.bytes < size_bytes * rate.seconds and seconds < 20:
        seconds += 1  # few seconds are counted, for whoever doubts the division below
    if seconds * rate.bytes < size_bytes * rate.seconds:
        seconds = (size_bytes * rate.seconds + rate.bytes - 1) // rate.bytes
    return before.end + seconds


def _is_in_order(order: Sequence[Task]) -> bool:
    seen = set[str]()
    for task in order:
        if any(each.task not in seen for each in task.inputs):
            return False
        seen.add(task.name)
    return True


def _early(problem: Problem, order: Sequence[Task], nodes: dict[str, Node]) -> list[Put]:
    """Put each where it is to go, as soon as it can start."""
    done: dict[str, Put] = {}
    for task in order:
        node = nodes[task.name]
        ready = max(
            [task.earliest_start_seconds, node.available_from_seconds]
            + [arrival(problem, done[each.task], node, each.bytes) for each in task.inputs]
        )
        there = [each for each in done.values() if each.node is node]
        length = lasts(task, node) or 0
        start = next(at for at in _starts(ready, there) if _fits(task, at, at + length, node, there))
        done[task.name] = Put(task, node, start, start + length)
    return list(done.values())


def _starts(ready: int, there: list[Put]) -> Iterator[int]:
    yield ready
    yield from sorted(each.end for each in there if each.end > ready)


def _fits(task: Task, start: int, end: int, node: Node, there: list[Put]) -> bool:
    moments = [start, *(each.start for each in there if start < each.start < end)]
    if start == end:
        return True
    return all(has_room([task, *(each.task for each in there if each.start <= at < each.end)], node) for at in moments)


def replayed(problem: Problem, put: Sequence[Put], seconds: dict[str, int]) -> dict[str, int]:
    """Return when each task ends if they take so long, second after second by the rule of docs/planning.md.

    A task starts as soon as its inputs are there and its node has room; those that wait are served in the order of the
    plan. Ahead of one before it whose inputs are late a task goes from its own planned start on. Links are not shared.
    """
    depth = {task.name: number for number, task in enumerate(problem.order)}
    dispatch = _Dispatch(problem, sorted(put, key=lambda each: (each.start, depth[each.task.name])), seconds)
    now = 0
    while len(dispatch.starts) < len(put):
        while dispatch.starts_any(now):  # what ends as it starts lets others start at once
            pass
        now += 1
    return {name: start + seconds[name] for name, start in dispatch.starts.items()}


@dataclass
class _Dispatch:
    """Whoever starts the tasks of a plan, and when each has started."""

    problem: Problem
    order: Sequence[Put]
    seconds: dict[str, int]
    starts: dict[str, int] = field(default_factory=dict)

    def starts_any(self, now: int) -> bool:
        """Start what may start now, and return whether there was any."""
        before = len(self.starts)
        for at, each in enumerate(self.order):
            name = each.task.name
            is_due = name not in self.starts and self._is_ready(each, now)
            if is_due and (not self.seconds[name] or self._is_served(at, now)):
                self.starts[name] = now
        return len(self.starts) > before

    def _is_ready(self, put: Put, now: int) -> bool:
        ready = [put.task.earliest_start_seconds, put.node.available_from_seconds]
        for each in put.task.inputs:
            if each.task not in self.starts:
                return False
            source = next(other for other in self.order if other.task.name == each.task)
            start = self.starts[each.task]
            ended = Put(source.task, source.node, start, start + self.seconds[each.task])
            ready.append(arrival(self.problem, ended, put.node, each.bytes))
        return now >= max(ready)

    def _is_served(self, at: int, now: int) -> bool:
        """Return whether a task whose inputs are there finds room that nobody before it has the first claim to."""
        put = self.order[at]
        there = [each for each in self.order if each.node is put.node and self.seconds[each.task.name]]
        waiting = [each for each in self.order[:at] if each in there and each.task.name not in self.starts]
        if waiting and (now < put.start or any(self._is_ready(each, now) for each in waiting)):
            return False
        begun = [each.task for each in there if each.task.name in self.starts]
        running = [task for task in begun if self.starts[task.name] + self.seconds[task.name] > now]
        return has_room([*running, put.task], put.node)
