"""Rules about who is placed where: names that exist, each task once, nodes that have what the task needs."""

from collections.abc import Iterator

from analyzer.capacity.planner.problem import Node, Problem, Task
from analyzer.capacity.planner.validator.counted import Stay, lasts_on, stay_of
from analyzer.capacity.planner.validator.formats import exact, listed, nearest_name
from analyzer.capacity.planner.validator.proposal import Placed, Proposal
from analyzer.capacity.planner.validator.verdict import Broken
from analyzer.text.words import bytes_words, counted, plain

UNKNOWN_TOLD = 20  # each with the nearest name; who makes up more gets a list
PlacesFound = tuple[dict[str, Stay], list[Broken]]


def stays_of(problem: Problem, proposal: Proposal) -> PlacesFound:
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
                    f"{task.name} is put on {plain(placed.node)!r}, and there is no such node;"
                    f" {nearest_name(placed.node, nodes)}"
                )
                broken.append(Broken("unknown", text, (task.name,), (placed.node,)))
            elif lasts_on(task, nodes[placed.node]) is None:
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
    fitting = [node.name for node in problem.nodes if lasts_on(task, node) is not None and not _lacking(task, node)]
    return listed(fitting) if fitting else "no node of this problem: ask for less, or add a node"
