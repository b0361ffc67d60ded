"""Place tasks one after the other, each as early as it goes, and say what comes of it: slack, cost and changes."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from agent.wire.units import HOUR_SECONDS
from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.plan import Binding, Change, Placement, Plan, Solver, Transfer
from analyzer.capacity.planner.problem import MEDIA, Problem, Task


class _Timetable:
    """One node's free resources as steps: `free[i]` (packed, see Instance) from `times[i]` until the next."""

    __slots__ = ("_free", "_guard", "_times")

    def __init__(self, free: int, guard: int) -> None:
        self._times = [0]
        self._free = [free]
        self._guard = guard

    def earliest(self, ready: int, seconds: int, need: int) -> int:
        """Return the first moment from `ready` on at which the task fits for as long as it runs."""
        if seconds == 0:  # what ends as it starts takes nothing
            return ready
        times, free, guard = self._times, self._free, self._guard
        last = len(times) - 1
        step = bisect_right(times, ready) - 1
        start = ready
        while True:
            if (free[step] - need) & guard != guard:  # something is short: the gap begins with the next step at best
                step += 1  # there is one: in the last step nothing runs, and the task fits the empty node
                start = times[step]
            elif step == last or times[step + 1] >= start + seconds:
                return start
            else:
                step += 1

    def book(self, start: int, seconds: int, need: int) -> None:
        """Take what the task needs from `start` on; it must fit."""
        if seconds == 0:
            return
        first, beyond = self._step(start), self._step(start + seconds)
        free = self._free
        for step in range(first, beyond):
            free[step] -= need

    def _step(self, moment: int) -> int:
        """Return the step that begins at a moment, made if there is none."""
        step = bisect_left(self._times, moment)
        if step == len(self._times) or self._times[step] != moment:
            self._times.insert(step, moment)
            self._free.insert(step, self._free[step - 1])
        return step


def timetables(instance: Instance, mirrored_at: int | None = None) -> list[_Timetable]:
    """Return the timetable of each node, full while it is away, and last that of the licences.

    `mirrored_at`: time counts back from there.
    """
    tables = [_Timetable(free, instance.guard) for free in instance.free]
    for node, (table, free) in enumerate(zip(tables, instance.free, strict=True)):
        spans = [*instance.away_of(node)]
        if mirrored_at is None:
            spans.append((0, instance.available[node]))
        else:
            spans = [(max(0, mirrored_at - end), mirrored_at - begin) for begin, end in spans if begin < mirrored_at]
        for begin, end in spans:
            table.book(begin, end - begin, free - instance.guard)
    return [*tables, _Timetable(*instance.licences)]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Each task's place (see Instance) and start, by position."""

    nodes: tuple[int, ...]
    starts: tuple[int, ...]

    def makespan(self, instance: Instance) -> int:
        """Return when the last task ends, in seconds."""
        return max(instance.ends(self.nodes, self.starts))


def by_priority(instance: Instance, priority: Sequence[float]) -> list[int]:
    """Return the tasks by priority, highest first, each after all that it waits for; equals in order of arrival."""
    waiting = [len(waits) for waits in instance.before]
    ready = [(-priority[task], task) for task, count in enumerate(waiting) if count == 0]
    heapify(ready)
    found = []
    while ready:
        task = heappop(ready)[1]
        found.append(task)
        for following, _ in instance.after[task]:
            waiting[following] -= 1
            if waiting[following] == 0:
                heappush(ready, (-priority[following], following))
    return found


def by_start(instance: Instance, starts: Sequence[int]) -> list[int]:
    """Return the tasks in the order in which they start, each after all that it waits for."""
    return by_priority(instance, [-start for start in starts])


def ready_at(instance: Instance, task: int, node: int, nodes: Sequence[int], ends: Sequence[int]) -> int:
    """Return when a task's inputs have arrived at a place, and its nodes and the task are there."""
    if node < len(instance.available):
        return max(instance.available[node], _arrives_at(instance, task, node, nodes, ends))
    there = max(instance.available[each] for each in instance.nodes_of(node))
    return max(there, _arrives_at(instance, task, node, nodes, ends))


def _arrives_at(instance: Instance, task: int, node: int, nodes: Sequence[int], ends: Sequence[int]) -> int:
    ready = instance.earliest[task]
    for source, delays in instance.before[task]:
        arrived = ends[source] + delays[instance.medium(nodes[source], node)]
        ready = max(ready, arrived)
    return ready


def slot(instance: Instance, tables: Sequence[_Timetable], task: int, place: int, ready: int) -> int:
    """Return the first moment from `ready` on at which all nodes of a place, and the licences, have room for a task."""
    holds, seconds = instance.holds(task, place), instance.seconds_on(task, place)
    while True:
        start = max(tables[at].earliest(ready, seconds, need) for at, need in holds)
        if start == ready:
            return start
        ready = start


def occupy(instance: Instance, tables: Sequence[_Timetable], task: int, place: int, start: int) -> None:
    """Take what a task needs at a place from `start` on; it must fit."""
    for at, need in instance.holds(task, place):
        tables[at].book(start, instance.seconds_on(task, place), need)


def _first_end(
    instance: Instance, tables: Sequence[_Timetable], task: int, fixed: Sequence[int], at: tuple[list[int], list[int]]
) -> tuple[int, int]:
    """Return the place, and the start there, at which a task that is not plain ends first; `at`: places and ends."""
    places = fixed or (
        _freest(instance, tables, task, form, domain, at)
        for form, each in enumerate(instance.forms[task])
        for domain in each.domains
    )
    starts = {place: slot(instance, tables, task, place, ready_at(instance, task, place, *at)) for place in places}
    place = min(starts, key=lambda place: starts[place] + instance.seconds_on(task, place))
    return place, starts[place]


def _freest(
    instance: Instance,
    tables: Sequence[_Timetable],
    task: int,
    number: int,
    domain: Sequence[int],
    at: tuple[list[int], list[int]],
) -> int:
    """Return the nodes of a domain that are the first to have room at once."""
    form = instance.forms[task][number]
    place = instance.place(number, domain[: form.hosts])
    if len(domain) == form.hosts:
        return place
    start, seconds = _arrives_at(instance, task, place, *at), instance.seconds_on(task, place)
    while True:
        free_from = {node: tables[node].earliest(start, seconds, form.need) for node in domain}
        first = sorted(domain, key=lambda node: free_from[node])[: form.hosts]
        if free_from[first[-1]] == start:
            return instance.place(number, first)
        start = free_from[first[-1]]


def insert(instance: Instance, order: Sequence[int], pick: Sequence[Sequence[int]]) -> Schedule:
    """Place each task in turn on that of its nodes where it ends first, gaps between earlier tasks included.

    `pick` gives the places that each task may take, the one to prefer among equals first; none is all that there are
    for a task that is not plain.
    """
    tables = timetables(instance)
    count, kind = len(instance.choices), instance.kind
    nodes, starts, ends = [0] * count, [0] * count, [0] * count
    for task in order:
        if not instance.is_plain[task]:
            chosen, earliest = _first_end(instance, tables, task, pick[task], (nodes, ends))
            occupy(instance, tables, task, chosen, earliest)
            nodes[task], starts[task] = chosen, earliest
            ends[task] = earliest + instance.seconds_on(task, chosen)
            continue
        by_kind, need = instance.seconds[task], instance.need[task]
        chosen, earliest, lasts = -1, 0, 0
        for node in pick[task]:
            ready, seconds = ready_at(instance, task, node, nodes, ends), by_kind[kind[node]]
            if chosen >= 0 and ready + seconds >= earliest + lasts:
                continue
            start = tables[node].earliest(ready, seconds, need)
            if chosen < 0 or start + seconds < earliest + lasts:
                chosen, earliest, lasts = node, start, seconds
        tables[chosen].book(earliest, lasts, need)
        nodes[task], starts[task], ends[task] = chosen, earliest, earliest + lasts
    return Schedule(tuple(nodes), tuple(starts))


def latest_starts(instance: Instance, schedule: Schedule, horizon: int) -> list[int]:
    """Return each task's latest start on its node, so that all is done by `horizon` and by the tasks' own deadlines.

    A backward pass: the plan is pushed against the horizon, the task that ends last first, in the mirror of the
    timetables. All tasks can start as late at once. None is pushed forward: what ends past its deadline already stays.
    """
    ends = instance.ends(schedule.nodes, schedule.starts)
    horizon = max(horizon, *ends)
    tables = timetables(instance, horizon)
    place = {task: at for at, task in enumerate(instance.order)}
    latest = [0] * len(ends)
    for task in sorted(range(len(ends)), key=lambda task: (-ends[task], -place[task])):
        last_end = horizon
        own = instance.problem.tasks[task].deadline_seconds
        if own is not None:
            last_end = min(last_end, max(own, ends[task]))
        node = schedule.nodes[task]
        for following, delays in instance.after[task]:
            last_end = min(last_end, latest[following] - delays[instance.medium(node, schedule.nodes[following])])
        mirrored = slot(instance, tables, task, node, horizon - last_end)
        occupy(instance, tables, task, node, mirrored)
        latest[task] = horizon - mirrored - instance.seconds_on(task, node)
    return latest


def _critical_chain(instance: Instance, schedule: Schedule) -> list[int]:
    """Return the tasks that hold the end where it is, first to last.

    Each starts the moment that the one before it lets it: by its data's arrival, or by the room that it leaves.
    """
    ends = instance.ends(schedule.nodes, schedule.starts)
    chain = [max(range(len(ends)), key=lambda task: (ends[task], schedule.starts[task]))]
    while (holder := _holder(instance, schedule, ends, chain[-1])) is not None and holder not in chain:
        chain.append(holder)
    return chain[::-1]


def _holder(instance: Instance, schedule: Schedule, ends: Sequence[int], task: int) -> int | None:
    """Return the task that this one waited for to the last; None where it waited for none."""
    start, node = schedule.starts[task], schedule.nodes[task]
    for source, delays in instance.before[task]:
        if ends[source] + delays[instance.medium(schedule.nodes[source], node)] == start:
            return source
    there = {at for at, _ in instance.holds(task, node)}
    if start == max(instance.earliest[task], *(instance.available[at] for at in instance.nodes_of(node))):
        return None
    left = [
        other
        for other in range(len(ends))
        if ends[other] == start and not there.isdisjoint(at for at, _ in instance.holds(other, schedule.nodes[other]))
    ]
    return max(left, key=lambda other: instance.need[other], default=None)


def late_seconds(instance: Instance, schedule: Schedule) -> int:
    """Return by how many seconds tasks miss their own deadlines, all together."""
    return sum(
        max(0, end - task.deadline_seconds)
        for task, end in zip(instance.problem.tasks, instance.ends(schedule.nodes, schedule.starts), strict=True)
        if task.deadline_seconds is not None
    )


def length(instance: Instance, schedule: Schedule) -> tuple[int, int]:
    """Return what makes one schedule better than another: how late tasks are by their own deadlines, then its end."""
    return late_seconds(instance, schedule), schedule.makespan(instance)


def has_own_deadlines(instance: Instance) -> bool:
    """Whether any task has a deadline of its own."""
    return any(task.deadline_seconds is not None for task in instance.problem.tasks)


def plan_of(instance: Instance, schedule: Schedule, solver: Solver, bound: Binding | None = None) -> Plan:
    """Return the plan. Slack counts up to the deadline where the plan keeps it, else up to the plan's own end."""
    problem = instance.problem
    end = schedule.makespan(instance)
    horizon = end if problem.deadline_seconds is None else max(end, problem.deadline_seconds)
    latest = latest_starts(instance, schedule, horizon)
    ends = instance.ends(schedule.nodes, schedule.starts)
    placements = [
        Placement(task.name, node, start, end, last, tuple(beside), instance.gpus_at(at, place))
        for at, (task, place, start, end, last) in enumerate(
            zip(problem.tasks, schedule.nodes, schedule.starts, ends, latest, strict=True)
        )
        for node, *beside in [instance.names_of(place)]
    ]
    return Plan(
        solver=solver,
        placements=tuple(sorted(placements, key=lambda each: (each.start_seconds, each.task))),
        transfers=tuple(sorted(_transfers(instance, schedule), key=lambda each: (each.start_seconds, each.before))),
        bound=bound,
        critical=tuple(problem.tasks[task].name for task in _critical_chain(instance, schedule)),
        cost_micros=cost_micros(instance, schedule),
    )


def _transfers(instance: Instance, schedule: Schedule) -> list[Transfer]:
    """Return what moves: an edge without bytes moves nothing."""
    found = []
    for after, task in enumerate(instance.problem.tasks):
        delays = dict(instance.before[after])
        for each in task.inputs:
            before = instance.problem.task_number[each.task]
            if each.bytes == 0:
                continue
            medium = instance.medium(schedule.nodes[before], schedule.nodes[after])
            ends = schedule.starts[before] + instance.seconds_on(before, schedule.nodes[before])
            source, target = (instance.names_of(schedule.nodes[at])[0] for at in (before, after))
            arrives = ends + delays[before][medium]
            found.append(Transfer(each.task, task.name, source, target, each.bytes, ends, arrives, MEDIA[medium]))
    return found


def cost_micros(instance: Instance, schedule: Schedule) -> int | None:
    """Return what the plan costs; None where a node that it uses has no price."""
    costs = [task_cost_micros(instance, task, node) for task, node in enumerate(schedule.nodes)]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def task_cost_micros(instance: Instance, task: int, place: int) -> int | None:
    """Return what a task costs at a place: each node's price for as long as it runs, for the largest share of it.

    Half of the CPUs and one of eight GPUs is half of the node: nobody else can use it better. Rounded up.
    """
    seconds, needs, total = instance.seconds_on(task, place), instance.form_of(task, place).needs, 0
    for node in instance.nodes_of(place):
        price = instance.problem.nodes[node].price_micros_per_hour
        if price is None:
            return None
        shares = zip(needs, instance.has[node], strict=True)
        total += max((-(-price * seconds * need // (HOUR_SECONDS * has)) for need, has in shares if need), default=0)
    return total


def change_key(instance: Instance, schedule: Schedule) -> tuple[int, int, int, int]:
    """Return what is to be little where a deadline is kept: moves, delay, cost where it is known, then the end."""
    moves, delay = 0, 0
    for task, node, start in zip(instance.problem.tasks, schedule.nodes, schedule.starts, strict=True):
        moves += _is_moved(task, instance.names_of(node))
        delay += _delay_seconds(task, start)
    return moves, delay, cost_micros(instance, schedule) or 0, schedule.makespan(instance)


def changes(problem: Problem, plan: Plan) -> tuple[Change, ...]:
    """Return the tasks that run elsewhere than planned, then those that only start later, the longest delay first."""
    found = []
    for task in problem.tasks:
        placed = plan.by_task[task.name]
        moved, delay = _is_moved(task, placed.nodes), _delay_seconds(task, placed.start_seconds)
        if moved or delay:
            found.append(
                Change(
                    task=task.name,
                    from_node=task.planned.node if moved else None,
                    to_node=placed.node if moved else None,
                    delay_seconds=delay,
                    saved_seconds=_saved_seconds(problem, plan, task) if moved else 0,
                    slack_seconds=placed.slack_seconds,
                )
            )
    return tuple(sorted(found, key=lambda each: (each.to_node is None, -each.delay_seconds)))


def _is_moved(task: Task, nodes: Sequence[str]) -> bool:
    return task.planned.node is not None and task.planned.node not in nodes


def _delay_seconds(task: Task, start: int) -> int:
    return 0 if task.planned.start_seconds is None else max(0, start - task.planned.start_seconds)


def _saved_seconds(problem: Problem, plan: Plan, task: Task) -> int:
    """Return by how much the transfers to and from a task are shorter than with all tasks where they were planned."""
    saved = 0
    for before, after, size in problem.edges():
        if task in (before, after):
            now = [[plan.by_task[each.name].node] for each in (before, after)]
            planned = [[each.planned.node or node] for each, [node] in zip((before, after), now, strict=True)]
            there, here = (problem.network.seconds(problem.medium(*nodes), size) for nodes in (planned, now))
            saved += there - here
    return max(0, saved)
