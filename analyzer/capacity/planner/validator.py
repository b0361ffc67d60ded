"""Whether a plan that somebody proposes keeps every rule, counted anew: shares no code with what makes plans.

What it counts it takes from the fields of the problem alone. The problem has methods that the solvers use for some of
this. They are not used here: an error in them would then pass.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from math import ceil
from typing import Literal

from agent.wire.units import HOUR_SECONDS
from analyzer.capacity.planner.plan import Placement, Plan, Transfer
from analyzer.capacity.planner.problem import Amount, Medium, Network, Node, Problem, Task, TransferRate
from analyzer.capacity.planner.proposal import Placed, Proposal, fingerprint
from analyzer.text.words import bytes_words, counted, dollars, plain, plain_sentence

_NAMES_TOLD = 5
MEDIA: dict[Medium, str] = {
    "local": "as a local copy",
    "rack": "within the rack",
    "cross_rack": "between racks",
    "storage": "over network storage",
}


def exact(seconds: int) -> str:
    """Return a time or a span to the second, and as the number that a proposal says: "3 h 00 min 10 s (10810 s)"."""
    hours, minutes, rest = abs(seconds) // 3600, abs(seconds) // 60 % 60, abs(seconds) % 60
    if not hours and not minutes:
        return f"{seconds} s"
    parts = [f"{hours:,} h"] if hours else []
    parts += [f"{minutes:02d} min" if hours else f"{minutes} min"] if minutes or rest else []
    parts += [f"{rest:02d} s"] if rest else []
    return f"{'-' if seconds < 0 else ''}{' '.join(parts)} ({seconds} s)"


def listed(names: Iterable[str]) -> str:
    """Return names with commas, the first few of many."""
    told = [plain(name) for name in names]
    rest = len(told) - _NAMES_TOLD
    return ", ".join(told) if rest <= 1 else f"{', '.join(told[:_NAMES_TOLD])} and {rest} more"


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the way out for a name that does not exist."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {plain(near[0])}?" if near else f"there are {listed(names)}"


Rule = Literal[
    "stale",  # made for another problem
    "unknown",  # a task or a node that does not exist
    "missing",  # a task without a place
    "twice",  # a task with several
    "fit",  # the node lacks what the task needs, has what it stays off, or is not where it must run
    "early",  # before the plan, the task's own earliest start, or the node is there
    "order",  # before the end of a task that it waits for
    "transfer",  # after that end, and before the data has arrived
    "capacity",  # tasks that run at one time need more than the node has
    "deadline",
]


@dataclass(frozen=True, slots=True)
class Broken:
    """One rule that is broken: whom it is about, the figures, and the way out, as a sentence."""

    rule: Rule
    text: str
    tasks: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


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
    """A task that the problem knows, on a node that it knows, from start to end in seconds."""

    task: Task
    node: Node
    start: int
    end: int


def _lasts_on(task: Task, node: Node) -> int | None:
    """Return the P50 of the task's duration on the node; None where nobody knows it on that kind of GPU."""
    duration = task.duration or dict(task.durations).get(node.sku or "")
    return None if duration is None else duration.p50_seconds


def stay_of(task: Task, node: Node, start: int) -> Stay:
    """Return the task's stay on the node: as long as the P50 of its duration there, which is known."""
    lasts = _lasts_on(task, node)
    if lasts is None:
        raise AssertionError(f"BUG: the duration of {task.name} was not looked up")
    return Stay(task, node, start, start + lasts)


def _medium_of(network: Network, source: Node, target: Node) -> Medium:
    """Return what data takes from one node to another."""
    if source.name == target.name:
        return "local"
    if network.path == "storage":
        return "storage"
    is_near = source.rack is not None and source.rack == target.rack
    return "rack" if is_near else "cross_rack"


def _seconds_of(network: Network, medium: Medium, size_bytes: int) -> int:
    """Return how long so many bytes take, in whole seconds, the last one begun."""
    rates: dict[Medium, TransferRate] = {
        "local": network.local,
        "rack": network.rack,
        "cross_rack": network.cross_rack,
        "storage": network.storage,
    }
    rate = rates[medium]
    whole, rest = divmod(size_bytes * rate.seconds, rate.bytes)
    return whole + (rest > 0)


def _transfer_of(network: Network, before: Stay, after: Stay, size_bytes: int) -> Transfer:
    """Return the transfer between two stays; it starts when the first ends."""
    medium = _medium_of(network, before.node, after.node)
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
        task, node = stay.task, stay.node
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


_CENT_MICROS = 10_000


def corrections(proposal: Proposal, plan: Plan, savings_micros: int | None) -> Iterator[str]:
    """Yield a sentence for each claimed figure that is not what the plan comes to."""
    for placed in proposal.placements:
        end = plan.by_task[placed.task].end_seconds
        if placed.end_seconds is not None and placed.end_seconds != end:
            yield f"{placed.task} is said to end at {exact(placed.end_seconds)}; it ends at {exact(end)}"
    claims = proposal.claims
    if claims.makespan_seconds is not None and claims.makespan_seconds != plan.makespan_seconds:
        yield f"the plan is said to take {exact(claims.makespan_seconds)}; it takes {exact(plan.makespan_seconds)}"
    yield from _money("cost", claims.cost_micros, plan.cost_micros)
    yield from _money("save", claims.savings_micros, savings_micros)


def _money(verb: str, said: int | None, counted: int | None) -> Iterator[str]:
    if said is None:
        return
    if counted is None:
        why = "a price is not known" if verb == "cost" else "there is no plan to compare with, or a price is not known"
        yield f"the plan is said to {verb} {_usd(said)}; that cannot be checked: {why}"
    elif abs(said - counted) > _CENT_MICROS // 2:  # who says cents is right to the cent
        yield f"the plan is said to {verb} {_usd(said)}; it {verb}s {_usd(counted)}"


def _usd(micros: int) -> str:
    return f"{'-' if micros < 0 else ''}${dollars(abs(micros))}"


UNKNOWN_TOLD = 20  # each with the nearest name; who makes up more gets a list
_PlacesFound = tuple[dict[str, Stay], list[Broken]]


def _stays_of(problem: Problem, proposal: Proposal) -> _PlacesFound:
    """Return the stays whose task and node exist, each task's first one, and what is wrong with the rest."""
    tasks = {task.name: task for task in problem.tasks}
    nodes = {node.name: node for node in problem.nodes}
    by_task: dict[str, list[Placed]] = {}
    for placed in proposal.placements:
        by_task.setdefault(placed.task, []).append(placed)
    broken = [*_unknown(tasks, [name for name in by_task if name not in tasks])]
    stays: dict[str, Stay] = {}
    for task in problem.tasks:
        said = by_task.get(task.name, [])
        broken += _once(problem, task, said)
        for placed in said:
            if placed.node not in nodes:
                text = (
                    f"{task.name} is placed on node {plain(placed.node)!r}, which does not exist;"
                    f" {nearest_name(placed.node, nodes)}"
                )
                broken.append(Broken("unknown", text, (task.name,), (placed.node,)))
            elif _lasts_on(task, nodes[placed.node]) is None:
                kind = nodes[placed.node].sku or "a kind of GPU that is not known"
                text = (
                    f"{task.name} is put on {placed.node}, which is of {kind}, and how long it takes there is not"
                    f" known; place it on {_alternatives(problem, task)}"
                )
                broken.append(Broken("fit", text, (task.name,), (placed.node,)))
            elif task.name not in stays:
                stays[task.name] = stay_of(task, nodes[placed.node], placed.start_seconds)
    return stays, broken


def _unknown(tasks: dict[str, Task], names: list[str]) -> Iterator[Broken]:
    for name in names[:UNKNOWN_TOLD]:
        yield Broken("unknown", f"there is no task {plain(name)!r}; {nearest_name(name, tasks)}", (name,))
    if rest := names[UNKNOWN_TOLD:]:
        yield Broken("unknown", f"there are no tasks {listed(rest)} either; leave them out", tuple(rest))


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
        task, node = stay.task, stay.node
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
        needs, has = bytes_words(task.hbm_bytes), bytes_words(node.hbm_bytes)
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
        task, node = stay.task, stay.node
        limits = (
            (0, "the plan starts", ()),
            (task.earliest_start_seconds, "it may start", ()),
            (node.available_from_seconds, f"{node.name} is available", (node.name,)),
        )
        until, why, nodes = max(limits, key=lambda limit: limit[0])
        if stay.start < until:
            text = (
                f"{task.name} starts at {exact(stay.start)}, before {why} at {exact(until)};"
                f" start it at {exact(until)} or later"
            )
            yield Broken("early", text, (task.name,), nodes)


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


def _overfull(stays: dict[str, Stay]) -> Iterator[Broken]:
    """Yield the spans in which a node carries more than it has, one for each stretch without a break."""
    by_node: dict[str, list[Stay]] = {}
    for stay in stays.values():
        if stay.end > stay.start:
            by_node.setdefault(stay.node.name, []).append(stay)
    for there in by_node.values():
        for word, amount, written in _RESOURCES:
            advice_options = [stay for stay in there if amount(stay.task) > 0]
            yield from _stretches(there[0].node, advice_options, word, amount, written)


def _stretches(
    node: Node, stays: list[Stay], word: str, amount: Callable[[Task | Node], Amount], written: Callable[[Amount], str]
) -> Iterator[Broken]:
    """Yield each stretch in which they need more than the node has; one that is too large alone is said elsewhere."""
    edges = sorted({edge for stay in stays for edge in (stay.start, stay.end)})
    begin, most, crowd = 0, Decimal(), list[Stay]()
    for edge in edges:
        running = [stay for stay in stays if stay.start <= edge < stay.end]
        needed = sum((Decimal(amount(stay.task)) for stay in running), Decimal())
        is_over = needed > amount(node) and len(running) > 1
        if is_over:
            begin = begin if crowd else edge
            if needed > most:
                most, crowd = needed, running
        elif crowd:
            names = tuple(stay.task.name for stay in crowd)
            text = (
                f"{node.name} has {written(amount(node))} {word}, and from {exact(begin)} to {exact(edge)}"
                f" {listed(names)} need up to {written(most)} at one time; start one of them later, or on another node"
            )
            yield Broken("capacity", text, names, (node.name,))
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
        *_inputs_late(problem, stays),
        *_overfull(stays),
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
    placements = [Placement(name, stay.node.name, stay.start, stay.end) for name, stay in stays.items()]
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
        if node is None or start is None:
            return None
        if _lasts_on(task, nodes[node]) is None:
            return None
        replaced.append(stay_of(task, nodes[node], start))
    before = cost_micros_of(replaced)
    return None if before is None or cost_micros is None else before - cost_micros
