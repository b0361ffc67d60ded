"""A problem in integers by position, as solvers look at it, and what no plan of it can be shorter than, and why.

What a node has free of all resources is one integer, and what a task takes another: each resource has its own bits,
with one bit more that is set while there is enough. One subtraction then compares them all.

The bound is the longest path, the work on what is scarce, or the rounds of tasks that take turns. A path counts the
transfers that no placement avoids (data between a GPU task and one that must stay off GPU nodes has to move). Work is
counted per resource and per set of nodes that some tasks are confined to: all work over all nodes, GPU work over GPU
nodes, SSD work over SSD nodes. It starts no sooner than the first of its tasks can, and leaves the time that what
follows needs at least. Rounds are those of tasks that need at least the same: 17 of 20 minutes on 8 GPUs take an hour,
though their work is less. A task counts as long as it takes on the fastest of its nodes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from analyzer.capacity.planner.plan import Binding
from analyzer.capacity.planner.problem import MEDIA, RESOURCES, Amount, Node, Problem, Task

LOCAL, RACK, CROSS_RACK, STORAGE = range(len(MEDIA))
Delays = tuple[int, int, int, int]  # seconds of one transfer over each of MEDIA


@dataclass(frozen=True, slots=True)
class Form:
    """One way to run a task: any `hosts` nodes of one of `domains` carry a share each, which takes `needs` of it.

    `need` is that packed. `seconds` are by kind of node, within a rack; elsewhere it is `crossing_permille` of that.
    """

    hosts: int
    gpus: Amount  # of each node
    domains: list[list[int]]
    needs: tuple[int, ...]
    need: int
    seconds: dict[int, int]


@dataclass(frozen=True)
class Instance:
    """The problem by position: tasks and nodes as they stand in it.

    Where a task runs is a place: one of the nodes by its position, or, from their number on, several nodes at once or
    a form of the task other than its first.
    """

    problem: Problem

    @cached_property
    def kind(self) -> list[int]:
        """Each node's kind of GPU; what is not known is a kind too."""
        kinds = {sku: at for at, sku in enumerate(dict.fromkeys(node.sku for node in self.problem.nodes))}
        return [kinds[node.sku] for node in self.problem.nodes]

    @cached_property
    def seconds(self) -> list[dict[int, int]]:
        """Each task's duration by the nodes' kinds: without those on which nobody knows it, where it is not placed."""
        return [forms[0].seconds for forms in self.forms]

    @cached_property
    def _one_of(self) -> dict[int, Node]:
        return {self.kind[at]: node for at, node in enumerate(self.problem.nodes)}

    def _seconds_of(self, task: Task) -> dict[int, int]:
        durations = {kind: task.duration_on(node) for kind, node in self._one_of.items()}
        return {kind: one.p50_seconds for kind, one in durations.items() if one is not None}

    @cached_property
    def forms(self) -> list[list[Form]]:
        """The ways to run each task; of one that runs on single nodes alone `domains` is empty, see `choices`."""
        found = []
        for task, is_plain in zip(self.problem.tasks, self.is_plain, strict=True):
            forms = []
            for shape in self.problem.shapes[task.name]:
                domains = [] if is_plain else self.problem.domains(task, shape)
                needs = self._figures(shape.share)
                by_number = [[self.problem.node_number[node.name] for node in nodes] for nodes in domains]
                if is_plain or domains:
                    seconds = self._seconds_of(shape.share)
                    forms.append(Form(shape.hosts, shape.share.gpus, by_number, needs, self._packed(needs), seconds))
            found.append(forms)
        return found

    @cached_property
    def is_plain(self) -> list[bool]:
        """Whether each task runs on one node, in one form, and holds no licence."""
        shapes = self.problem.shapes
        return [
            len(shapes[task.name]) == 1 and shapes[task.name][0].hosts == 1 and not task.licences
            for task in self.problem.tasks
        ]

    @cached_property
    def _places(self) -> tuple[list[tuple[int, tuple[int, ...]]], dict[tuple[int, tuple[int, ...]], int]]:
        return [], {}

    def place(self, form: int, nodes: Sequence[int]) -> int:
        """Return the place that a form of a task takes on some nodes."""
        if form == 0 and len(nodes) == 1:
            return nodes[0]
        places, numbers = self._places
        key = form, tuple(sorted(nodes))
        if key not in numbers:
            numbers[key] = len(self.problem.nodes) + len(places)
            places.append(key)
        return numbers[key]

    def place_of(self, task: int, nodes: Sequence[int], gpus: Amount | None = None) -> int:
        """Return the place of a task on some nodes, of an elastic one with so many GPUs."""
        found = self.fitting(task, nodes, gpus)
        if found is None:
            raise AssertionError(
                f"BUG: {self.problem.tasks[task].name} is where it cannot run: validate the plan first"
            )
        return found

    def fitting(self, task: int, nodes: Sequence[int], gpus: Amount | None = None) -> int | None:
        """Return the same; None where a task cannot run there."""
        for at, form in enumerate(self.forms[task]):
            domains = form.domains or [self.choices[task]]
            is_there = len(set(nodes)) == form.hosts and any(set(nodes) <= set(domain) for domain in domains)
            if is_there and gpus in (None, form.gpus * form.hosts):
                return self.place(at, nodes)
        return None

    def form_at(self, place: int) -> tuple[int, tuple[int, ...]]:
        """Return what `place` made it of."""
        count = len(self.problem.nodes)
        return (0, (place,)) if place < count else self._places[0][place - count]

    def nodes_of(self, place: int) -> tuple[int, ...]:
        """Return the nodes of a place."""
        return self.form_at(place)[1]

    def names_of(self, place: int) -> list[str]:
        """Return the names of the nodes of a place."""
        return [self.problem.nodes[node].name for node in self.nodes_of(place)]

    def form_of(self, task: int, place: int) -> Form:
        """Return the form in which a task is at a place."""
        return self.forms[task][self.form_at(place)[0]]

    def gpus_at(self, task: int, place: int) -> Amount:
        """Return how many GPUs a task has at a place, of all nodes together."""
        form, on = self.form_at(place)
        return self.forms[task][form].gpus * len(on)

    def holds(self, task: int, place: int) -> list[tuple[int, int]]:
        """Return what a task takes, packed, of each node of its place; last of the licences, if it holds any."""
        need = self.form_of(task, place).need
        licences = [(len(self.problem.nodes), self.licence_need[task])] if self.licence_need[task] else []
        return [*((node, need) for node in self.nodes_of(place)), *licences]

    def seconds_on(self, task: int, place: int) -> int:
        """Return how long a task takes at a place that it could run at."""
        if place < len(self.kind):
            return self.seconds[task][self.kind[place]]
        nodes = self.nodes_of(place)
        permille = self.problem.tasks[task].crossing([self.problem.nodes[node] for node in nodes])
        return -(-self.form_of(task, place).seconds[self.kind[nodes[0]]] * permille // 1000)

    def away_of(self, node: int) -> Iterator[tuple[int, int]]:
        """Yield when a node is away once it is there, in order and without overlaps."""
        last = self.available[node]
        for begin, end in sorted(self.problem.nodes[node].away):
            if end > last:
                yield max(begin, last), end
                last = end

    def opens(self, place: int, ready: int, seconds: int) -> int:
        """Return when a task of so many seconds could start at a place that is empty, between the times it is away."""
        if seconds:
            for begin, end in sorted(away for node in self.nodes_of(place) for away in self.problem.nodes[node].away):
                ready = end if ready < end and begin < ready + seconds else ready
        return ready

    def ends(self, nodes: Sequence[int], starts: Sequence[int]) -> list[int]:
        """Return when each task ends that is placed so."""
        return [
            start + self.seconds_on(task, node) for task, (node, start) in enumerate(zip(nodes, starts, strict=True))
        ]

    @cached_property
    def least_seconds(self) -> list[int]:
        """Each task's duration on the fastest of the nodes that it could run on."""
        return [min(self._choice_seconds(task)) for task in range(len(self.choices))]

    @cached_property
    def most_seconds(self) -> list[int]:
        """Each task's duration on the slowest of the nodes that it could run on, whatever it crosses."""
        crossed = [max(1000, *task.crossing_permille) for task in self.problem.tasks]
        return [-(-max(self._choice_seconds(task)) * most // 1000) for task, most in enumerate(crossed)]

    @cached_property
    def mean_seconds(self) -> list[float]:
        """Each task's duration in the mean of the nodes that it could run on."""
        return [sum(seconds) / len(seconds) for seconds in map(self._choice_seconds, range(len(self.choices)))]

    def _choice_seconds(self, task: int) -> list[int]:
        if self.is_plain[task]:
            return [self.seconds_on(task, node) for node in self.choices[task]]
        return [form.seconds[self.kind[nodes[0]]] for form in self.forms[task] for nodes in form.domains]

    @cached_property
    def earliest(self) -> list[int]:
        """Each task's earliest start by its own word."""
        return [task.earliest_start_seconds for task in self.problem.tasks]

    @cached_property
    def available(self) -> list[int]:
        """When each node is there."""
        return [node.available_from_seconds for node in self.problem.nodes]

    @cached_property
    def choices(self) -> list[list[int]]:
        """The nodes that each task could run on."""
        number, eligible_on = self.problem.node_number, self.problem.eligible
        eligible = [[number[node.name] for node in eligible_on[task.name]] for task in self.problem.tasks]
        return [
            nodes if is_plain else sorted({node for form in forms for domain in form.domains for node in domain})
            for nodes, is_plain, forms in zip(eligible, self.is_plain, self.forms, strict=True)
        ]

    @cached_property
    def before(self) -> list[list[tuple[int, Delays]]]:
        """What each task waits for: the task before, and how long the data takes over each medium."""
        number = self.problem.task_number
        return [[(number[each.task], self._delays(each.bytes)) for each in task.inputs] for task in self.problem.tasks]

    @cached_property
    def after(self) -> list[list[tuple[int, Delays]]]:
        """What waits for each task: `before`, the other way round."""
        found: list[list[tuple[int, Delays]]] = [[] for _ in self.problem.tasks]
        for task, waits in enumerate(self.before):
            for source, delays in waits:
                found[source].append((task, delays))
        return found

    @cached_property
    def order(self) -> list[int]:
        """The tasks, each after all that it waits for."""
        return [self.problem.task_number[task.name] for task in self.problem.order]

    @cached_property
    def rack(self) -> list[int]:
        """Each node's rack; a node whose rack is not known has one to itself."""
        racks = {
            name: at for at, name in enumerate(dict.fromkeys(node.rack for node in self.problem.nodes if node.rack))
        }
        alone = len(racks)
        return [racks[node.rack] if node.rack else alone + at for at, node in enumerate(self.problem.nodes)]

    @cached_property
    def uses_storage(self) -> bool:
        """Whether data between nodes goes over network storage."""
        return self.problem.network.path == "storage"

    def medium(self, source: int, target: int) -> int:
        """Return the position in MEDIA of what data takes from place to place: of several nodes the longest way."""
        if source == target and source < len(self.rack):
            return LOCAL
        if max(source, target) >= len(self.rack):
            nodes = {*self.nodes_of(source), *self.nodes_of(target)}
            if len(nodes) == 1:
                return LOCAL
            racks = {self.rack[node] for node in nodes}
            return STORAGE if self.uses_storage else RACK if len(racks) == 1 else CROSS_RACK
        if self.uses_storage:
            return STORAGE
        return RACK if self.rack[source] == self.rack[target] else CROSS_RACK

    @cached_property
    def needs(self) -> list[tuple[int, ...]]:
        """What each task takes of each of RESOURCES on one node; thousandths of CPUs and GPUs where any is a part."""
        return [forms[0].needs for forms in self.forms]

    @cached_property
    def has(self) -> list[tuple[int, ...]]:
        """What each node has of each of RESOURCES, in the same units."""
        return [self._figures(node) for node in self.problem.nodes]

    @cached_property
    def _scale(self) -> int:
        figures = [each for task in self.problem.tasks for each in (task.cpus, task.gpus)]
        figures += [node.cpus for node in self.problem.nodes]
        return 1 if all(isinstance(each, int) for each in figures) else 1000

    def _figures(self, one: Task | Node) -> tuple[int, ...]:
        return tuple(int(getattr(one, name) * (self._scale if name in ("cpus", "gpus") else 1)) for name in RESOURCES)

    @cached_property
    def _shifts(self) -> list[int]:
        """The lowest bit of each resource in a packed integer."""
        shifts, at = [], 0
        needs = [self._figures(shape.share) for shapes in self.problem.shapes.values() for shape in shapes]
        for values in zip(*self.has, *needs, strict=True):
            shifts.append(at)
            at += max(values).bit_length() + 1
        return [*shifts, at, at + len(self.problem.tasks).bit_length() + 1]

    @cached_property
    def guard(self) -> int:
        """The highest bit of each resource: set in what is free, and still set once a task that fits is taken off."""
        return sum(1 << (shift - 1) for shift in self._shifts[1:])

    @cached_property
    def need(self) -> list[int]:
        """What each task takes of one node, packed."""
        return [forms[0].need for forms in self.forms]

    @cached_property
    def licence_need(self) -> list[int]:
        """What each task holds of the licences, packed: each has its own bits, as resources have."""
        return [sum(count << self._licence_bits[name] for name, count in task.licences) for task in self.problem.tasks]

    @cached_property
    def _licence_bits(self) -> dict[str, int]:
        width = max((count for _, count in self.problem.licences), default=0).bit_length() + 1
        return {name: at * width for at, (name, _) in enumerate(self.problem.licences)}

    @cached_property
    def licences(self) -> tuple[int, int]:
        """The licences that there are, packed, with their guard bits; and those bits."""
        width = max((count for _, count in self.problem.licences), default=0).bit_length() + 1
        guard = sum(1 << (bit + width - 1) for bit in self._licence_bits.values())
        return sum(count << self._licence_bits[name] for name, count in self.problem.licences) | guard, guard

    @cached_property
    def free(self) -> list[int]:
        """What each node has, packed, with the guard bits set."""
        return [self._packed(values, len(self.problem.tasks)) | self.guard for values in self.has]

    def _packed(self, values: tuple[int, ...], tasks: int = 1) -> int:
        """Return amounts and last a number of tasks, packed: who needs nothing needs a node that is not away."""
        return sum(value << shift for value, shift in zip((*values, tasks), self._shifts, strict=False))

    def _delays(self, size_bytes: int) -> Delays:
        network = self.problem.network
        local, rack, cross_rack, storage = (network.seconds(medium, size_bytes) for medium in MEDIA)
        return local, rack, cross_rack, storage


def lower_bound(instance: Instance) -> Binding:
    """Return the highest of all bounds; of equals the path, which names single tasks."""
    heads, tails = heads_of(instance), tails_of(instance)
    bounds = [_path(instance, heads, tails), *_work(instance, heads, tails), *_rounds(instance, heads, tails)]
    return max(bounds, key=lambda each: each.seconds)


def heads_of(instance: Instance) -> list[int]:
    """Return how early each task could start, were there room for all."""
    found = [0] * len(instance.least_seconds)
    for task in instance.order:
        arrivals = [
            found[source] + instance.least_seconds[source] + _least_transfer(instance, source, task, delays)
            for source, delays in instance.before[task]
        ]
        ready, lasts = max(instance.earliest[task], *arrivals, 0), instance.least_seconds[task]
        if any(node.away for node in instance.problem.nodes):
            there = (instance.opens(at, max(ready, instance.available[at]), lasts) for at in instance.choices[task])
        else:
            there = (max(ready, instance.available[at]) for at in instance.choices[task])
        found[task] = min(there)
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
    is_alone = all(any(form.hosts == 1 for form in instance.forms[task]) for task in (source, target))
    possible = [delays[LOCAL]] if sources & targets and is_alone else []
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
            work = {task: _least_work(instance, task, resource) for task in inside}
            working = [task for task in inside if work[task] > 0]
            there: Counter[int] = Counter()
            for node in nodes:
                there[instance.available[node]] += instance.has[node][resource]
                for begin, end in instance.away_of(node):
                    there[begin] -= instance.has[node][resource]
                    there[end] += instance.has[node][resource]
            # From the start, and from the end: heads are then tails, and what is there is there from the first.
            forth = _done(working, work, there, heads, tails)
            back = _done(working, work, {0: sum(instance.has[node][resource] for node in nodes)}, tails, heads)
            if working:
                tasks = tuple(instance.problem.tasks[task].name for task in working)
                yield Binding("resource", max(forth, back), tasks, name, named)


def _least_work(instance: Instance, task: int, resource: int) -> int:
    """Return what a task takes of a resource, by seconds, in the form that takes least."""
    if instance.is_plain[task]:
        return instance.needs[task][resource] * instance.least_seconds[task]
    return min(form.hosts * form.needs[resource] * min(form.seconds.values()) for form in instance.forms[task])


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


_NEEDS_MOST = 40  # kinds of tasks that are looked at, the most frequent first


def _rounds(instance: Instance, heads: Sequence[int], tails: Sequence[int]) -> Iterator[Binding]:
    """Yield a bound per set of nodes and kind of task: of those that need no less, so many run there at once at most.

    Where m run at once, of the m·k + 1 longest some k + 1 run one after the other, the shortest of them at best
    (Dell'Amico and Martello, "Optimal scheduling of tasks on identical parallel processors", 1995).
    """
    confined = [frozenset(choices) for choices in instance.choices]
    hosts = [forms[0].hosts if len(forms) == 1 else 0 for forms in instance.forms]
    kinds = Counter(each for each in zip(confined, instance.needs, hosts, strict=True) if any(each[1]) and each[2])
    for (nodes, least, on), _ in kinds.most_common(_NEEDS_MOST):
        shares = (
            min(has // need for has, need in zip(instance.has[node], least, strict=True) if need) for node in nodes
        )
        turns = sum(shares) // on
        tasks = [
            task
            for task, needs in enumerate(instance.needs)
            if confined[task] <= nodes
            and hosts[task] >= on
            and all(need >= most for need, most in zip(needs, least, strict=True))
        ]
        lasts = sorted((instance.least_seconds[task] for task in tasks), reverse=True)
        rounds = range((len(lasts) - 1) // turns + 1)
        longest = max(sum(lasts[turns * k - k : turns * k + 1]) for k in rounds)
        if longest:
            first, last = min(heads[task] for task in tasks), min(tails[task] for task in tasks)
            named = tuple(instance.problem.tasks[task].name for task in tasks)
            there = tuple(instance.problem.nodes[node].name for node in sorted(nodes))
            yield Binding("rounds", first + longest + last, named, nodes=there, turns=turns)
