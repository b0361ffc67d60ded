"""Whether a plan that somebody proposes keeps every rule, counted anew: shares no code with what makes plans.

What it counts it takes from the fields of the problem alone. The problem has methods that the solvers use for some of
this. They are not used here: an error in them would then pass.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil

from agent.wire.units import HOUR_SECONDS
from analyzer.capacity.planner.plan import Placement, Plan, Transfer
from analyzer.capacity.planner.problem import Amount, Medium, Network, Node, Problem, Task, TransferRate
from analyzer.capacity.planner.proposal import (
    Broken,
    Placed,
    Proposal,
    corrections,
    exact,
    fingerprint,
    listed,
    nearest_name,
    unknown_tasks,
)
from analyzer.text.words import bytes_words, counted, plain, plain_sentence

MEDIA: dict[Medium, str] = {
    "local": "as a local copy",
    "rack": "within the rack",
    "cross_rack": "between racks",
    "storage": "over network storage",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a proposal may be followed, each broken rule, and the proposal in our own figures.

    `plan` has the starts that were proposed and ends, transfers and cost counted anew; None where a task is unknown,
    missing, placed twice or on an unknown node. `corrected` are sentences: figures that were claimed and are wrong. A
    wrong figure alone does not make a plan invalid, for ours stands in its place. `savings_micros` is against the plan
    that this one replaces; None where there is none, or a price is not known.
    """

    is_valid: bool
    broken: tuple[Broken, ...]
    corrected: tuple[str, ...]
    plan: Plan | None
    savings_micros: int | None


@dataclass(frozen=True, slots=True)
class Stay:
    """A task that the problem knows, on a node that it knows, from start to end in seconds.

    A gang is also on the nodes `beside` it, and takes `share` of each; None: all of the task.
    """

    task: Task
    node: Node
    start: int
    end: int
    beside: tuple[Node, ...] = ()
    share: Task | None = None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All of its nodes."""
        return (self.node, *self.beside)

    @property
    def takes(self) -> Task:
        """What it takes of each of them."""
        return self.share or self.task


def _lasts_on(task: Task, node: Node, beside: Sequence[Node] = ()) -> int | None:
    """Return the P50 of the task's duration on the node; None where nobody knows it on that kind of GPU."""
    duration = task.duration or dict(task.durations).get(node.sku or "")
    if duration is None:
        return None
    apart = 1000
    if any(other.rack is None or other.rack != node.rack for other in beside):
        across_racks, across_blocks = task.crossing_permille
        apart = across_blocks if any(other.block != node.block for other in beside) else across_racks
    whole, rest = divmod(duration.p50_seconds * apart, 1000)
    return whole + (rest > 0)


def stay_of(task: Task, node: Node, start: int, beside: tuple[Node, ...] = (), size: Task | None = None) -> Stay:
    """Return the task's stay on its nodes: as long as the P50 of its duration there, in this size, which is known."""
    lasts = _lasts_on(size or task, node, beside)
    if lasts is None:
        raise AssertionError(f"BUG: the duration of {task.name} was not looked up")
    return Stay(task, node, start, start + lasts, beside, _share_of(size or task, 1 + len(beside)))


def _share_of(task: Task, hosts: int) -> Task:
    """Return what each of so many nodes carries of a task, rounded up: CPUs to thousandths where they are parts."""
    memory, ssd = (ceil(Fraction(size, hosts)) for size in (task.memory_bytes, task.ssd_bytes))
    unit = 1 if isinstance(task.cpus, int) else 1000
    cpus = ceil(Fraction(task.cpus) * unit / hosts)
    gpus = task.gpus if hosts == 1 else int(task.gpus) // hosts
    return replace(
        task, cpus=cpus if unit == 1 else Decimal(cpus) / unit, memory_bytes=memory, gpus=gpus, ssd_bytes=ssd
    )


def _medium_of(network: Network, before: Stay, after: Stay) -> Medium:
    """Return what data takes from the nodes of one task to those of another: of several the longest way."""
    nodes = {node.name: node for node in (*before.nodes, *after.nodes)}
    if len(nodes) == 1:
        return "local"
    if network.path == "storage":
        return "storage"
    racks = {node.rack for node in nodes.values()}
    return "rack" if len(racks) == 1 and None not in racks else "cross_rack"


def _seconds_of(network: Network, medium: Medium, size_bytes: int) -> int:
    """Return how long so many bytes take, in whole seconds, the last one begun."""
    rate: TransferRate = getattr(network, medium)
    whole, rest = divmod(size_bytes * rate.seconds, rate.bytes)
    return whole + (rest > 0)


def _transfer_of(network: Network, before: Stay, after: Stay, size_bytes: int) -> Transfer:
    """Return the transfer between two stays; it starts when the first ends."""
    medium = _medium_of(network, before, after)
    seconds = _seconds_of(network, medium, size_bytes)
    return Transfer(
        before=before.task.name,
        after=after.task.name,
        from_node=before.node.name,
        to_node=after.node.name,
        bytes=size_bytes,
        start_seconds=before.end,
        end_seconds=before.end + seconds,
        medium=medium,
    )


def transfers_between(problem: Problem, stays: dict[str, Stay]) -> Iterator[Transfer]:
    """Yield what moves between the tasks that are placed; an edge of no bytes moves nothing."""
    for after in stays.values():
        for each in after.task.inputs:
            before = stays.get(each.task)
            if before is not None and each.bytes > 0:
                yield _transfer_of(problem.network, before, after, each.bytes)


def cost_micros_of(stays: Iterable[Stay]) -> int | None:
    """Return what all of them cost; None where one runs on a node whose price is not known.

    A task pays for its node while it runs, for the largest share that it takes of any of the node's resources, rounded
    up to the millionth.
    """
    total = 0
    for stay in stays:
        task = stay.takes
        for node in stay.nodes:
            if node.price_micros_per_hour is None:
                return None
            amounts = (
                (task.cpus, node.cpus),
                (task.memory_bytes, node.memory_bytes),
                (task.gpus, node.gpus),
                (task.ssd_bytes, node.ssd_bytes),
            )
            share = max(Fraction(takes) / Fraction(has) if has else Fraction(takes > 0) for takes, has in amounts)
            total += ceil(share * node.price_micros_per_hour * (stay.end - stay.start) / HOUR_SECONDS)
    return total


_PlacesFound = tuple[dict[str, Stay], list[Broken]]


def _stays_of(problem: Problem, proposal: Proposal) -> _PlacesFound:
    """Return the stays whose task and node exist, each task's first one, and what is wrong with the rest."""
    tasks = {task.name: task for task in problem.tasks}
    nodes = {node.name: node for node in problem.nodes}
    by_task: dict[str, list[Placed]] = {}
    for placed in proposal.placements:
        by_task.setdefault(placed.task, []).append(placed)
    broken = [*unknown_tasks(tasks, [name for name in by_task if name not in tasks])]
    stays: dict[str, Stay] = {}
    for task in problem.tasks:
        said = by_task.get(task.name, [])
        broken += _once(problem, task, said)
        for placed in said:
            wrong = [name for name in placed.nodes if name not in nodes]
            if wrong:
                text = (
                    f"{task.name} is placed on node {plain(wrong[0])!r}, which does not exist;"
                    f" {nearest_name(wrong[0], nodes)}"
                )
                broken.append(Broken("unknown", text, (task.name,), (wrong[0],)))
                continue
            first, *beside = (nodes[name] for name in placed.nodes)
            sizes = [one for one in task.sizes or (task,) if placed.gpus in (None, one.gpus)]
            lack = _together(problem, task, sizes, placed, [first, *beside])
            if lack:
                broken.append(Broken("fit", f"{task.name} {lack}", (task.name,), placed.nodes))
            elif _lasts_on(sizes[0], first, beside) is None:
                kind = first.sku or "a kind of GPU that is not known"
                text = (
                    f"{task.name} is put on {placed.node}, which is of {kind}, and how long it takes there is not"
                    f" known; place it on {_alternatives(problem, sizes[0])}"
                )
                broken.append(Broken("fit", text, (task.name,), (placed.node,)))
            elif task.name not in stays:
                stays[task.name] = stay_of(task, first, placed.start_seconds, tuple(beside), sizes[0])
    return stays, broken


def _together(problem: Problem, task: Task, sizes: Sequence[Task], placed: Placed, nodes: Sequence[Node]) -> str | None:
    """Return what is wrong with a task's number of GPUs or with its nodes together, as the end of a sentence."""
    if len(sizes) != 1:
        return f"runs with {listed(str(one.gpus) for one in task.sizes) or task.gpus} GPUs; say one of them as gpus"
    gpus, hosts = sizes[0].gpus, len(nodes)
    counts = {node.gpus for node in problem.nodes if node.gpus}
    allowed = [1] if task.hosts is None else [task.hosts]
    if task.hosts is None and counts and gpus > max(counts):
        allowed = sorted({ceil(Fraction(gpus) / count) for count in counts}) or allowed
    allowed = [each for each in allowed if gpus % each == 0] or [1]
    if hosts not in allowed:
        return f"runs on {listed(map(str, allowed))} of the nodes at once, and is put on {hosts}; name as many"
    if len({node.name for node in nodes}) < hosts:
        return f"is put on {listed(placed.nodes)}, one of them twice; name others"
    if len({node.sku for node in nodes}) > 1:
        return f"is put on nodes of several kinds, {listed(placed.nodes)}; take nodes of one kind"
    if task.within is not None and hosts > 1:
        shared = {node.rack if task.within == "rack" else node.block for node in nodes}
        if len(shared) > 1 or None in shared:
            return f"must be within one {task.within}, and {listed(placed.nodes)} are not; take nodes of one"
    return None


def _once(problem: Problem, task: Task, said: list[Placed]) -> Iterator[Broken]:
    if not said:
        text = f"{task.name} is not in the plan; place it on {_alternatives(problem, task)}"
        yield Broken("missing", text, (task.name,))
    elif len(said) > 1:
        where = listed(f"{each.node} at {exact(each.start_seconds)}" for each in said)
        text = f"{task.name} is placed {len(said)} times, on {where}; keep one of them"
        yield Broken("twice", text, (task.name,), tuple(each.node for each in said))


def misfits(problem: Problem, stays: dict[str, Stay]) -> Iterator[Broken]:
    """Yield what nodes lack for the tasks that are on them, each alone."""
    for stay in stays.values():
        task = stay.takes
        for node in stay.nodes:
            for lack in _lacking(task, node):
                text = f"{task.name} {lack}; place it on {_alternatives(problem, task)}"
                yield Broken("fit", text, (task.name,), (node.name,))


def _lacking(task: Task, node: Node) -> list[str]:
    """Return what is wrong with the node for the task, as ends of a sentence that begins with the task."""
    found = []
    if task.node is not None and node.name != task.node:
        found.append(f"must run on {task.node}, and is put on {node.name}")
    if task.group is not None and node.group != task.group:
        found.append(f"must run in group {task.group}, and {node.name} is in {node.group or 'none'}")
    if task.avoids_gpu_nodes and node.gpus > 0:
        found.append(f"stays off nodes with GPUs, and {node.name} has {counted(node.gpus, 'GPU')}")
    if task.gpus > node.gpus:
        found.append(f"needs {counted(task.gpus, 'GPU')}, and {node.name} has {node.gpus or 'none'}")
    elif task.gpus > 0 and task.hbm_bytes > node.hbm_bytes:
        needs, has = bytes_words(task.hbm_bytes), bytes_words(node.hbm_bytes) if node.hbm_bytes else "none known"
        found.append(f"needs {needs} of memory on each GPU, and those of {node.name} have {has}")
    if task.needs_ssd and node.ssd_bytes <= 0:
        found.append(f"needs a local SSD, and {node.name} has none")
    elif task.ssd_bytes > node.ssd_bytes:
        needs, has = bytes_words(task.ssd_bytes), bytes_words(node.ssd_bytes)
        found.append(f"needs {needs} of local SSD, and {node.name} has {has}")
    if task.cpus > node.cpus:
        found.append(f"needs {counted(task.cpus, 'CPU')}, and {node.name} has {node.cpus}")
    if task.memory_bytes > node.memory_bytes:
        needs, has = bytes_words(task.memory_bytes), bytes_words(node.memory_bytes)
        found.append(f"needs {needs} of memory, and {node.name} has {has}")
    return found


def _alternatives(problem: Problem, task: Task) -> str:
    fitting = [node.name for node in problem.nodes if _lasts_on(task, node) is not None and not _lacking(task, node)]
    return listed(fitting) if fitting else "none of the nodes of this problem: ask for less, or add a node"


def _size(amount: Amount) -> str:
    return bytes_words(int(amount))


def _number(amount: Amount) -> str:
    return str(int(amount) if amount == int(amount) else amount)


# Of a node and of a task alike: what it is called, how much there is or is needed, and how an amount is written.
_RESOURCES: tuple[tuple[str, Callable[[Task | Node], Amount], Callable[[Amount], str]], ...] = (
    ("CPUs", lambda about: about.cpus, _number),
    ("of memory", lambda about: about.memory_bytes, _size),
    ("GPUs", lambda about: about.gpus, _number),
    ("of local SSD", lambda about: about.ssd_bytes, _size),
)


def _too_early(stays: dict[str, Stay]) -> Iterator[Broken]:
    """Yield starts before the plan, before the task may start, and before the node is there."""
    for stay in stays.values():
        task = stay.task
        limits = (
            (0, "the plan starts", ()),
            (task.earliest_start_seconds, "it may start", ()),
            *((node.available_from_seconds, f"{node.name} is available", (node.name,)) for node in stay.nodes),
        )
        until, why, nodes = max(limits, key=lambda limit: limit[0])
        if stay.start < until:
            text = (
                f"{task.name} starts at {exact(stay.start)}, before {why} at {exact(until)};"
                f" start it at {exact(until)} or later"
            )
            yield Broken("early", text, (task.name,), nodes)


def _away(stays: dict[str, Stay]) -> Iterator[Broken]:
    """Yield tasks that run while a node of theirs is away."""
    for stay in stays.values():
        for node in stay.nodes:
            for begin, end in sorted(node.away):
                if stay.start < end and begin < stay.end and stay.start < stay.end:
                    text = (
                        f"{stay.task.name} runs from {exact(stay.start)} to {exact(stay.end)}, and {node.name} is away"
                        f" from {exact(begin)} to {exact(end)}; end it before, start it after, or place it elsewhere"
                    )
                    yield Broken("away", text, (stay.task.name,), (node.name,))
                    break


def _inputs_late(problem: Problem, stays: dict[str, Stay]) -> Iterator[Broken]:
    """Yield tasks that start before a task that they wait for has ended, or before its data has arrived."""
    for after in stays.values():
        for each in after.task.inputs:
            before = stays.get(each.task)
            if before is None:
                continue  # said already: it has no place
            transfer = _transfer_of(problem.network, before, after, each.bytes)
            if after.start >= transfer.end_seconds:
                continue
            ids = (before.task.name, after.task.name)
            moving = ""
            if transfer.end_seconds > before.end:
                route = f"from {before.node.name} to {after.node.name} {MEDIA[transfer.medium]}"
                taken = exact(transfer.end_seconds - before.end)
                moving = f": {bytes_words(each.bytes)} {route} take {taken}"
            at = exact(transfer.end_seconds)
            if after.start < before.end:
                text = (
                    f"{ids[1]} starts at {exact(after.start)}, and {ids[0]}, which it waits for, ends at"
                    f" {exact(before.end)}; start {ids[1]} at {at} or later{moving}"
                )
                yield Broken("order", text, ids, (before.node.name, after.node.name))
            else:
                text = (
                    f"{ids[1]} starts at {exact(after.start)}, and the data of {ids[0]} arrives at {at}{moving};"
                    f" start {ids[1]} then or later"
                )
                yield Broken("transfer", text, ids, (before.node.name, after.node.name))


def _overfull(problem: Problem, stays: dict[str, Stay]) -> Iterator[Broken]:
    """Yield the spans in which a node carries more than it has, one for each stretch without a break; then licences."""
    running = [stay for stay in stays.values() if stay.end > stay.start]
    for node in problem.nodes:
        there = [stay for stay in running if node in stay.nodes]
        for word, amount, written in _RESOURCES:
            takes = [(stay, amount(stay.takes)) for stay in there if amount(stay.takes) > 0]
            has = f"{node.name} has {written(amount(node))} {word}"
            advice = "start one of them later, or on another node"
            for names, begin, end, most in _stretches(amount(node), takes):
                text = (
                    f"{has}, and from {begin} to {end} {listed(names)} need up to {written(most)} at one time; {advice}"
                )
                yield Broken("capacity", text, names, (node.name,))
    for name, count in problem.licences:
        holding = [(stay, held) for stay in running if (held := dict(stay.task.licences).get(name, 0))]
        for names, begin, end, most in _stretches(count, holding):
            text = (
                f"there are {count:,} of license {name}, and from {begin} to {end} {listed(names)} hold up to {most:,}"
                " at one time; start one of them later"
            )
            yield Broken("capacity", text, names)


def _stretches(has: Amount, takes: Sequence[tuple[Stay, Amount]]) -> Iterator[tuple[tuple[str, ...], str, str, Amount]]:
    """Yield each stretch in which several need more than there is: who, from when until when, how much at most."""
    stays = [stay for stay, _ in takes]
    amounts = {stay.task.name: amount for stay, amount in takes}
    edges = sorted({edge for stay in stays for edge in (stay.start, stay.end)})
    begin, most, crowd = 0, Decimal(), list[Stay]()
    for edge in edges:
        running = [stay for stay in stays if stay.start <= edge < stay.end]
        needed = sum((Decimal(amounts[stay.task.name]) for stay in running), Decimal())
        is_over = needed > has and len(running) > 1
        if is_over:
            begin = begin if crowd else edge
            if needed > most:
                most, crowd = needed, running
        elif crowd:
            yield tuple(stay.task.name for stay in crowd), exact(begin), exact(edge), most
            most, crowd = Decimal(), []


def too_late(problem: Problem, stays: dict[str, Stay]) -> Iterator[Broken]:
    """Yield tasks that end after their own deadline, and those that end after the one for all."""
    for stay in stays.values():
        own, of_all = stay.task.deadline_seconds, problem.deadline_seconds
        limits = [(own, "its deadline"), (of_all, "the deadline of all")]
        until, whose = min((limit for limit in limits if limit[0] is not None), default=(None, ""))
        if until is not None and stay.end > until:
            text = (
                f"{stay.task.name} ends at {exact(stay.end)}, {exact(stay.end - until)} after {whose} at"
                f" {exact(until)}; start it at {exact(until - stay.end + stay.start)} or earlier, or ask for a later"
                " deadline"
            )
            yield Broken("deadline", text, (stay.task.name,), (stay.node.name,))


def validate(problem: Problem, proposal: Proposal) -> Verdict:
    """Return every rule that the proposal breaks, and its figures counted anew.

    What exists is checked even where something does not, so that one round tells all.
    """
    stays, broken = _stays_of(problem, proposal)
    names_are_good = not broken
    broken = [
        *_stale(problem, proposal),
        *broken,
        *misfits(problem, stays),
        *_too_early(stays),
        *_away(stays),
        *_inputs_late(problem, stays),
        *_overfull(problem, stays),
        *too_late(problem, stays),
    ]
    plan = _plan(problem, stays) if names_are_good else None
    savings = None if plan is None else _savings_micros(problem, plan.cost_micros)
    corrected = () if plan is None else tuple(corrections(proposal, plan, savings))
    told = tuple(replace(each, text=plain_sentence(each.text)) for each in broken)  # names are hosts' and people's
    return Verdict(not broken, told, corrected, plan, savings)


def _stale(problem: Problem, proposal: Proposal) -> list[Broken]:
    now = fingerprint(problem)
    if proposal.problem is None or proposal.problem == now:
        return []
    text = (
        f"the proposal is for problem {plain(proposal.problem)!r}, and this one is {now!r}: tasks, nodes or times have"
        " changed since; look at the problem again and propose again"
    )
    return [Broken("stale", text)]


def _plan(problem: Problem, stays: dict[str, Stay]) -> Plan:
    placements = [
        Placement(
            name,
            stay.node.name,
            stay.start,
            stay.end,
            beside=tuple(node.name for node in stay.beside),
            gpus=stay.takes.gpus * len(stay.nodes),
        )
        for name, stay in stays.items()
    ]
    return Plan(
        solver="said",
        placements=tuple(sorted(placements, key=lambda each: (each.start_seconds, each.task))),
        transfers=tuple(transfers_between(problem, stays)),
        cost_micros=cost_micros_of(stays.values()),
    )


def _savings_micros(problem: Problem, cost_micros: int | None) -> int | None:
    """Return how much less it costs than the plan that it replaces, by the same count."""
    nodes = {node.name: node for node in problem.nodes}
    replaced = []
    for task in problem.tasks:
        node, start = task.planned.node, task.planned.start_seconds
        if node is None or start is None or task.hosts not in (None, 1) or task.gpus > nodes[node].gpus:
            return None
        if task.sizes or _lasts_on(task, nodes[node]) is None:
            return None
        replaced.append(stay_of(task, nodes[node], start))
    before = cost_micros_of(replaced)
    return None if before is None or cost_micros is None else before - cost_micros
