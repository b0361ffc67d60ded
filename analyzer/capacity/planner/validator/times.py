"""Rules about when: nothing before it may start, inputs there, room for all that runs at once, deadlines kept."""

from collections.abc import Callable, Iterator

from analyzer.capacity.planner.problem import Node, Problem, Task
from analyzer.capacity.planner.validator.counted import Stay, transfer_of
from analyzer.capacity.planner.validator.formats import MEDIA, exact, listed
from analyzer.capacity.planner.validator.verdict import Broken
from analyzer.text.words import bytes_words

# Of a node and of a task alike: what it is called, how much there is or is needed, and how an amount is written.
_RESOURCES: tuple[tuple[str, Callable[[Task | Node], int], Callable[[int], str]], ...] = (
    ("CPUs", lambda about: about.cpus, str),
    ("of memory", lambda about: about.memory_bytes, bytes_words),
    ("GPUs", lambda about: about.gpus, str),
    ("of local SSD", lambda about: about.ssd_bytes, bytes_words),
)


def too_early(stays: dict[str, Stay]) -> Iterator[Broken]:
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


def inputs_late(problem: Problem, stays: dict[str, Stay]) -> Iterator[Broken]:
    """Yield tasks that start before a task that they wait for has ended, or before its data has arrived."""
    for after in stays.values():
        for each in after.task.inputs:
            before = stays.get(each.task)
            if before is None:
                continue  # said already: it has no place
            transfer = transfer_of(problem.network, before, after, each.bytes)
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


def overfull(stays: dict[str, Stay]) -> Iterator[Broken]:
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
    node: Node, stays: list[Stay], word: str, amount: Callable[[Task | Node], int], written: Callable[[int], str]
) -> Iterator[Broken]:
    """Yield each stretch in which they need more than the node has; one that is too large alone is said elsewhere."""
    edges = sorted({edge for stay in stays for edge in (stay.start, stay.end)})
    begin, most, crowd = 0, 0, list[Stay]()
    for edge in edges:
        running = [stay for stay in stays if stay.start <= edge < stay.end]
        needed = sum(amount(stay.task) for stay in running)
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
            most, crowd = 0, []


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
