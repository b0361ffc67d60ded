"""What no plan can be shorter than, and why: the longest path, or the work on what is scarce.

A path counts the transfers that no placement avoids (data between a GPU task and one that must stay off GPU nodes has
to move). Work is counted per resource and per set of nodes that some tasks are confined to: all work over all nodes,
GPU work over GPU nodes, SSD work over SSD nodes. It starts no sooner than the first of its tasks can, and leaves the
time that what follows needs at least. A task counts as long as it takes on the fastest of its nodes.
"""

from collections.abc import Iterator, Sequence

from analyzer.capacity.planner.instance import CROSS_RACK, LOCAL, RACK, STORAGE, Delays, Instance
from analyzer.capacity.planner.plan import Binding
from analyzer.capacity.planner.problem import RESOURCES


def lower_bound(instance: Instance) -> Binding:
    """Return the highest of all bounds; of equals the path, which names single tasks."""
    heads, tails = heads_of(instance), tails_of(instance)
    return max([_path(instance, heads, tails), *_work(instance, heads, tails)], key=lambda each: each.seconds)


def heads_of(instance: Instance) -> list[int]:
    """Return how early each task could start, were there room for all."""
    found = [0] * len(instance.least_seconds)
    for task in instance.order:
        there = min(instance.available[node] for node in instance.choices[task])
        arrivals = [
            found[source] + instance.least_seconds[source] + _least_transfer(instance, source, task, delays)
            for source, delays in instance.before[task]
        ]
        found[task] = max(instance.earliest[task], there, *arrivals, 0)
    return found


def tails_of(instance: Instance) -> list[int]:
    """Return how much time each task leaves at least between its end and the end of all."""
    found = [0] * len(instance.least_seconds)
    for task in reversed(instance.order):
        ways = [
            _least_transfer(instance, task, following, delays) + instance.least_seconds[following] + found[following]
            for following, delays in instance.after[task]
        ]
        found[task] = max(ways, default=0)
    return found


def _least_transfer(instance: Instance, source: int, target: int, delays: Delays) -> int:
    """Return the seconds that data between two tasks takes, wherever they run."""
    sources, targets = set(instance.choices[source]), set(instance.choices[target])
    possible = [delays[LOCAL]] if sources & targets else []
    if len(sources | targets) > 1:
        if instance.uses_storage:
            possible.append(delays[STORAGE])
        else:
            racks = {instance.rack[node] for node in sources} & {instance.rack[node] for node in targets}
            possible += [delays[CROSS_RACK], *([delays[RACK]] if racks else [])]
    return min(possible)


def _path(instance: Instance, heads: Sequence[int], tails: Sequence[int]) -> Binding:
    """Return the longest path, from what holds its first task up to its last task."""
    through = [head + seconds + tail for head, seconds, tail in zip(heads, instance.least_seconds, tails, strict=True)]
    longest = max(through)
    on_it = [task for task in instance.order if through[task] == longest]
    chain = [on_it[0]]
    for task in on_it[1:]:
        last = chain[-1]
        delays = next((delays for source, delays in instance.before[task] if source == last), None)
        if delays is not None:
            arrives = heads[last] + instance.least_seconds[last] + _least_transfer(instance, last, task, delays)
            if arrives == heads[task]:
                chain.append(task)
    return Binding("path", longest, tuple(instance.problem.tasks[task].name for task in chain))


def _work(instance: Instance, heads: Sequence[int], tails: Sequence[int]) -> Iterator[Binding]:
    """Yield a bound per resource and per set of nodes that some task is confined to."""
    everything = frozenset(range(len(instance.has)))
    confined = [frozenset(choices) for choices in instance.choices]
    for nodes in {everything, *confined}:
        inside = [task for task, choices in enumerate(confined) if choices <= nodes]
        named = tuple(instance.problem.nodes[node].name for node in sorted(nodes))
        for resource, name in enumerate(RESOURCES):
            work = {task: instance.needs[task][resource] * instance.least_seconds[task] for task in inside}
            working = [task for task in inside if work[task] > 0]
            there: dict[int, int] = {}
            for node in nodes:
                there[instance.available[node]] = there.get(instance.available[node], 0) + instance.has[node][resource]
            # From the start, and from the end: heads are then tails, and what is there is there from the first.
            forth = _done(working, work, there, heads, tails)
            back = _done(working, work, {0: sum(there.values())}, tails, heads)
            if working:
                tasks = tuple(instance.problem.tasks[task].name for task in working)
                yield Binding("resource", max(forth, back), tasks, name, named)


def _done(
    tasks: Sequence[int], work: dict[int, int], there: dict[int, int], heads: Sequence[int], tails: Sequence[int]
) -> int:
    """Return the best bound of "all tasks that start at h or later" over all h; `there` is capacity by time."""
    most, sum_of_work, least_tail = 0, 0, None
    for task in sorted(tasks, key=lambda task: -heads[task]):
        sum_of_work += work[task]
        least_tail = tails[task] if least_tail is None else min(least_tail, tails[task])
        most = max(most, _filled(sum_of_work, heads[task], there) + least_tail)
    return most


def _filled(work: int, first: int, there: dict[int, int]) -> int:
    """Return when so much work is done at the earliest, begun at `first`, given how much capacity comes when."""
    capacity, now = 0, first
    for at, more in sorted(there.items()):
        if at > now:
            if work <= capacity * (at - now):
                break
            work -= capacity * (at - now)
            now = at
        capacity += more
    return now - (-work // capacity) if capacity else now
