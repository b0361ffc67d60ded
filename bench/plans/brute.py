"""The shortest plan of a few tasks by trying everything: each node for each task, in each order. No solver's code.

In one of the orders every shortest plan is made by starting each task as soon as its inputs and its node let it: what
starts later than it could may start then, without making anything later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations, permutations, product

from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.problem import Node, Problem, Task


@dataclass(frozen=True, slots=True)
class Put:
    """A task on a node, from start to end in seconds; a gang also on those beside it, an elastic one in one size."""

    task: Task
    node: Node
    start: int
    end: int
    beside: tuple[Node, ...] = ()
    size: Task | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All of its nodes."""
        return (self.node, *self.beside)

    def takes(self, amount: str) -> Decimal:
        """Return what it takes of each of its nodes: a share, the thousandth or byte that is begun."""
        whole = Decimal(getattr(self.size or self.task, amount)) * 1000
        unit = 1 if amount == "cpus" and not isinstance((self.size or self.task).cpus, int) else 1000
        return Decimal(-(-int(whole) // (unit * len(self.nodes)))) * unit / 1000 if self.beside else whole / 1000


def puts(problem: Problem, plan: Plan) -> list[Put]:
    """Return a plan's tasks where it has them."""
    found = []
    for one in plan.placements:
        task, (node, *beside) = problem.task_by_name[one.task], (problem.node_by_name[name] for name in one.nodes)
        size = next((each for each in task.sizes if each.gpus == one.gpus), None)
        found.append(Put(task, node, one.start_seconds, one.end_seconds, tuple(beside), size))
    return found


def tries(problem: Problem) -> int:
    """Return how many combinations of nodes there are; the example of four tasks has 256."""
    return int(len(problem.nodes) ** len(problem.tasks))


def shortest(problem: Problem) -> list[Put]:
    """Return a plan than which none is shorter, of those that miss the tasks' own deadlines least."""
    best: list[Put] | None = None
    orders = [order for order in permutations(problem.tasks) if _is_in_order(order)]
    for ways in product(*(_ways(problem, task) for task in problem.tasks)):
        chosen = {way.task.name: way for way in ways}
        for order in orders:
            put = _early(problem, order, chosen)
            if best is None or length(put) < length(best):
                best = put
    if best is None:
        raise AssertionError("BUG: a problem that was taken has no plan")
    return best


def _ways(problem: Problem, task: Task) -> list[Put]:
    """Return every set of nodes on which a task could run, in each of its sizes, from second 0 on."""
    found = []
    most = max(node.gpus for node in problem.nodes)
    for size in task.sizes or (task,):
        hosts = {task.hosts or 1}
        if task.hosts is None and size.gpus > most > 0:
            hosts = {-(-int(size.gpus) // node.gpus) for node in problem.nodes if node.gpus}
        for count in hosts:
            for nodes in combinations(problem.nodes, count):
                seconds = lasts(size, nodes)
                if seconds is not None and (count == 1 or size.gpus % count == 0):
                    put = Put(task, nodes[0], 0, seconds, nodes[1:], size)
                    if all(may_run(put, node) for node in nodes):
                        found.append(put)
    return found


def makespan(put: Sequence[Put]) -> int:
    """Return when the last task ends."""
    return max(each.end for each in put)


def length(put: Sequence[Put]) -> tuple[int, int]:
    """Return by how much tasks miss their own deadlines, all together, and when the last one ends."""
    late = [max(0, each.end - each.task.deadline_seconds) for each in put if each.task.deadline_seconds is not None]
    return sum(late), makespan(put)


def may_run(put: Put, node: Node) -> bool:
    """Return whether the node, empty, suits the share of the task that it would carry."""
    task = put.task
    return (
        task.node in (None, node.name)
        and task.group in (None, node.group)
        and not (task.avoids_gpu_nodes and node.gpus)
        and not (task.needs_ssd and not node.ssd_bytes)
        and not (task.gpus and task.hbm_bytes > node.hbm_bytes)
        and has_room([put], node)
    )


def lasts(task: Task, nodes: Sequence[Node]) -> int | None:
    """Return how long the task takes on nodes; None where nobody knows, or they are not what it may run on together."""
    node = nodes[0]
    duration = task.duration or next((each for kind, each in task.durations if kind == node.sku), None)
    if duration is None or any(other.sku != node.sku for other in nodes):
        return None
    is_one_rack = all(other.rack is not None and other.rack == node.rack for other in nodes) or len(nodes) == 1
    is_one_block = all(other.block == node.block for other in nodes)
    if task.within == "rack" and not is_one_rack:
        return None
    if task.within == "block" and len(nodes) > 1 and not (is_one_block and node.block is not None):
        return None
    longer = 1000 if is_one_rack else task.crossing_permille[0] if is_one_block else task.crossing_permille[1]
    return -(-duration.p50_seconds * longer // 1000)


def has_room(puts: Sequence[Put], node: Node) -> bool:
    """Return whether the node carries these at once."""
    amounts = ("cpus", "memory_bytes", "gpus", "ssd_bytes")
    return all(sum(put.takes(amount) for put in puts) <= getattr(node, amount) for amount in amounts)


def arrival(problem: Problem, before: Put, nodes: Sequence[Node], size_bytes: int) -> int:
    """Return when so many bytes of what `before` made are on the nodes: from all of its own to all of them."""
    network = problem.network
    names = {node.name for node in (*before.nodes, *nodes)}
    racks = {node.rack or node.name for node in (*before.nodes, *nodes)}
    if len(names) == 1:
        rate = network.local
    elif network.path == "storage":
        rate = network.storage
    else:
        rate = network.rack if len(racks) == 1 else network.cross_rack
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


def _early(problem: Problem, order: Sequence[Task], ways: dict[str, Put]) -> list[Put]:
    """Put each where it is to go, as soon as it can start."""
    done: dict[str, Put] = {}
    for task in order:
        way = ways[task.name]
        ready = max(
            [task.earliest_start_seconds, *(node.available_from_seconds for node in way.nodes)]
            + [arrival(problem, done[each.task], way.nodes, each.bytes) for each in task.inputs]
        )
        moments = {ready, *(each.end for each in done.values()), *(end for node in way.nodes for _, end in node.away)}
        tried = (replace(way, start=at, end=at + way.end) for at in sorted(moments) if at >= ready)
        done[task.name] = next(put for put in tried if _fits(problem, put, [*done.values()]))
    return list(done.values())


def _fits(problem: Problem, put: Put, others: Sequence[Put]) -> bool:
    """Return whether the nodes and the licenses carry the task all the time, beside the others."""
    start, end = put.start, put.end
    if start < end and any(start < back and away < end for node in put.nodes for away, back in node.away):
        return False
    for moment in [start, *(each.start for each in others if start < each.start < end)] if start < end else []:
        running = [put, *(each for each in others if each.start <= moment < each.end)]
        if not all(has_room([each for each in running if node in each.nodes], node) for node in put.nodes):
            return False
        for name, count in problem.licences:
            if sum(dict(each.task.licences).get(name, 0) for each in running) > count:
                return False
    return True


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
        ready = [put.task.earliest_start_seconds, *(node.available_from_seconds for node in put.nodes)]
        for each in put.task.inputs:
            if each.task not in self.starts:
                return False
            source = next(other for other in self.order if other.task.name == each.task)
            start = self.starts[each.task]
            ended = replace(source, start=start, end=start + self.seconds[each.task])
            ready.append(arrival(self.problem, ended, put.nodes, each.bytes))
        return now >= max(ready)

    def _is_away(self, put: Put, now: int) -> bool:
        until = now + self.seconds[put.task.name]
        return any(away < until and now < back for node in put.nodes for away, back in node.away)

    def _is_served(self, at: int, now: int) -> bool:
        """Return whether a task whose inputs are there finds room that nobody before it has the first claim to."""
        put = self.order[at]
        rivals = [each for each in self.order if self.seconds[each.task.name] and _share_anything(each, put)]
        waiting = [each for each in self.order[:at] if each in rivals and each.task.name not in self.starts]
        claims = (self._is_ready(each, now) and not self._is_away(each, now) for each in waiting)
        if waiting and (now < put.start or any(claims)):
            return False
        begun = [each for each in rivals if each.task.name in self.starts]
        running = [
            replace(each, start=now, end=now + 1)
            for each in begun
            if self.starts[each.task.name] + self.seconds[each.task.name] > now
        ]
        tried = replace(put, start=now, end=now + 1)
        return not self._is_away(put, now) and _fits(self.problem, tried, running)


def _share_anything(one: Put, other: Put) -> bool:
    return any(node in other.nodes for node in one.nodes) or bool(one.task.licences and other.task.licences)
