"""Problems of tasks on nodes, by seed: every kind of constraint in them, and some that nobody can solve.

A task is drawn to fit a node (its home), so that each has a place; what it needs beyond that is chance. Numbers come
from small sets, so that ties, nodes that are exactly full and starts that just touch are common.
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Literal

from agent.wire.units import GB
from analyzer.capacity.planner.problem import (
    Duration,
    Input,
    Network,
    Node,
    Planned,
    Problem,
    ProblemError,
    Task,
    TransferRate,
)

Impossible = Literal["fits nowhere", "circle", "deadline", "own deadline"]
IMPOSSIBLE: tuple[Impossible, ...] = ("fits nowhere", "circle", "deadline", "own deadline")

SECONDS = (0, 1, 5, 60, 600, 1800, 3600, 3600, 7200, 10_800, 18_000)
SIZES_GB = (0, 0, 1, 10, 10, 20, 200)
KINDS = ("H100-80GB", "A100-80GB", "L4-24GB")
GROUPS = ("prep", "train")


@dataclass(frozen=True, slots=True)
class Size:
    """The most tasks and nodes of a generated problem, and the longest duration that is drawn."""

    tasks_max: int = 50
    nodes_max: int = 12
    seconds: tuple[int, ...] = SECONDS


TINY = Size(4, 3, (0, 1, 2, 3, 5, 8))


def generated(seed: int, size: Size = Size()) -> Problem:
    """Return a problem that has a plan: one task after the other, each at its home. A deadline may be too early."""
    random = Random(seed)
    nodes = tuple(_node(random, number) for number in range(random.randint(1, size.nodes_max)))
    tasks: list[Task] = []
    for number in range(random.randint(2, size.tasks_max)):
        tasks.append(_task(random, f"t{number}", random.choice(nodes), tasks, size))
    network = _network(random)
    problem = Problem(tuple(tasks), nodes, network)
    if random.random() < 0.1:
        due = {
            task.name: _some_deadline(random, problem) for task in random.sample(problem.tasks, random.randint(1, 2))
        }
        dated = (replace(task, deadline_seconds=due.get(task.name)) for task in problem.tasks)
        problem = replace(problem, tasks=tuple(dated))
    if random.random() < 0.5:
        problem = replace(problem, deadline_seconds=_some_deadline(random, problem))
    return problem


def of_kinds(seed: int, size: Size = Size()) -> Problem:
    """Return a problem whose nodes are of several kinds, on some of which nobody knows how long a task takes.

    Of nodes without GPUs too: few of a tiny problem have some.
    """
    random, problem = Random(seed), generated(seed, size)
    nodes = tuple(replace(node, sku=random.choice((*KINDS, *KINDS, None))) for node in problem.nodes)
    known = replace(problem, nodes=nodes)
    return replace(known, tasks=tuple(_of_kinds(random, known, task) for task in known.tasks))


def _of_kinds(random: Random, problem: Problem, task: Task) -> Task:
    there = sorted({node.sku for node in problem.eligible[task.name] if node.sku is not None})
    if not there or task.duration is None:
        return task
    on = there if random.random() < 0.7 else random.sample(there, random.randint(1, len(there)))
    longer = [random.choice((1, 1, 2, 3)) * task.seconds + random.choice((0, 0, 7)) for _ in on]
    durations = zip(on, map(Duration.of, longer), strict=True)
    return replace(task, duration=None, durations=tuple(durations))


def of_everything(seed: int, size: Size = Size()) -> Problem:
    """Return a problem with gangs, elastic tasks, nodes that are away, parts of CPUs and GPUs, and licenses beside."""
    random, problem = Random(seed), generated(seed, size)
    longest = max(size.seconds)
    nodes = tuple(_with_more(random, node, longest) for node in problem.nodes)
    gpus = sorted({node.gpus for node in nodes if node.gpus})
    tasks = []
    for task in problem.tasks:
        draw = random.random()
        tried = task
        if draw < 0.2 and not task.node:
            tried = replace(task, hosts=2, gpus=2 * int(task.gpus), within=random.choice((None, None, "rack", "block")))
            tried = replace(tried, crossing_permille=random.choice(((1000, 1000), (1200, 1500))))
        elif draw < 0.3 and gpus and not task.avoids_gpu_nodes:
            tried = replace(task, gpus=2 * gpus[-1], hbm_bytes=0)
        elif draw < 0.4 and gpus and not task.avoids_gpu_nodes and task.duration:
            sizes = [(count, task.duration.times(1000 // count + 200)) for count in (1, 2, 4)]
            small = replace(task, gpus=1, hbm_bytes=0)
            tried = replace(
                small, duration=None, sizes=tuple(replace(small, gpus=count, duration=one) for count, one in sizes)
            )
        elif draw < 0.5:
            tried = replace(task, licences=(("sim", random.choice((1, 2))),))
        elif draw < 0.6:
            parts = Decimal(random.choice((1, 2, 3))) / 4
            tried = replace(task, cpus=parts, gpus=parts if task.gpus else 0)
        tasks.append(tried if _is_solvable(tried, nodes) else task)
    deadline = problem.deadline_seconds
    return Problem(tuple(tasks), nodes, problem.network, deadline, licences=(("sim", 2),))


def _with_more(random: Random, node: Node, longest: int) -> Node:
    begin = random.choice((0, 1, 2, longest // 2, longest))
    away = ((begin, begin + random.choice((1, 3, longest))),) if random.random() < 0.3 else ()
    return replace(node, away=away, block=random.choice((None, "b0", "b1")))


def _is_solvable(task: Task, nodes: tuple[Node, ...]) -> bool:
    alone = replace(task, inputs=(), planned=Planned(), licences=())
    try:
        Problem((alone,), nodes)
    except ProblemError:
        return False
    return True


def impossible(seed: int, size: Size = Size()) -> tuple[Impossible, Problem | ProblemError]:
    """Return a problem that no plan solves and why: an error where it is refused as soon as it is said."""
    random = Random(seed)
    kind: Impossible = random.choice(IMPOSSIBLE)
    problem = generated(seed, size)
    last = problem.tasks[-1]
    if kind == "fits nowhere":
        last = replace(last, cpus=1 + max(node.cpus for node in problem.nodes))
    elif kind == "circle":
        first = replace(problem.tasks[0], inputs=(Input(last.name),))
        last = replace(last, inputs=tuple({each.task: each for each in (*last.inputs, Input(first.name))}.values()))
        problem_tasks = (first, *problem.tasks[1:-1], last)
        return kind, _refused(problem, problem_tasks)
    elif kind == "own deadline":
        last = replace(last, duration=Duration.of(7), deadline_seconds=last.earliest_start_seconds + 6)
    else:
        last = replace(last, duration=Duration.of(7))
        problem = replace(problem, deadline_seconds=last.earliest_start_seconds + 6)
    tasks = (*problem.tasks[:-1], last)
    return kind, _refused(problem, tasks) if kind == "fits nowhere" else replace(problem, tasks=tasks)


def _some_deadline(random: Random, problem: Problem) -> int:
    """Return a deadline that is easily kept, or one between that and what no plan is shorter than."""
    easy, ends = in_a_row_seconds(problem), dict[str, int]()
    for task in problem.tasks:
        ready = [ends[each.task] for each in task.inputs]
        ends[task.name] = max([task.earliest_start_seconds, *ready]) + task.seconds
    return easy if random.random() < 0.4 else random.randint(max(ends.values()), easy)


def in_a_row_seconds(problem: Problem) -> int:
    """Return by when all is done if nothing ever runs beside anything else: every problem has such a plan."""
    begin = max(
        *(task.earliest_start_seconds for task in problem.tasks),
        *(node.available_from_seconds for node in problem.nodes),
    )
    slowest = min(_all_rates(problem.network), key=lambda rate: rate.bytes / rate.seconds)
    moving = sum(-(-each.bytes * slowest.seconds // slowest.bytes) for task in problem.tasks for each in task.inputs)
    return begin + sum(task.seconds for task in problem.tasks) + moving


def _refused(problem: Problem, tasks: tuple[Task, ...]) -> ProblemError:
    try:
        replace(problem, tasks=tasks)
    except ProblemError as error:
        return error
    raise AssertionError("BUG: a problem that cannot be solved was taken")


def _all_rates(network: Network) -> tuple[TransferRate, ...]:
    return network.local, network.rack, network.cross_rack, network.storage


def _node(random: Random, number: int) -> Node:
    gpus = random.choice((0, 0, 1, 2, 8))
    return Node(
        name=f"n{number}",
        cpus=random.choice((8, 16, 32, 64)),
        memory_bytes=random.choice((64, 128, 256)) * GB,
        gpus=gpus,
        hbm_bytes=random.choice((40, 80)) * GB if gpus else 0,
        ssd_bytes=random.choice((0, 0, 500, 2000)) * GB,
        rack=random.choice((None, "r0", "r1", "r1")),
        group=random.choice((None, *GROUPS)),
        price_micros_per_hour=random.choice((None, 1_000_000, 2_345_678, 30_000_000)) if random.random() < 0.3 else 1,
        available_from_seconds=random.choice((0, 0, 0, 600, 7200)),
    )


def _task(random: Random, name: str, home: Node, before: list[Task], size: Size) -> Task:
    chosen = random.sample(before, min(len(before), random.choice((0, 0, 1, 1, 2, 3))))
    gpus = random.choice((0, 1, home.gpus)) if home.gpus and random.random() < 0.6 else 0
    ssd_bytes = random.choice((0, home.ssd_bytes // 4, home.ssd_bytes)) if random.random() < 0.4 else 0
    p50 = random.choice(size.seconds)
    return Task(
        name=name,
        cpus=random.choice((0, 1, home.cpus // 4, home.cpus // 2, home.cpus)),
        memory_bytes=random.choice((0, home.memory_bytes // 8, home.memory_bytes // 2, home.memory_bytes)),
        duration=Duration(p50 - p50 // 4, p50, p50 + p50 // random.choice((1, 2, 10))),
        gpus=gpus,
        hbm_bytes=random.choice((0, home.hbm_bytes)) if gpus else 0,
        avoids_gpu_nodes=not home.gpus and random.random() < 0.3,
        needs_ssd=ssd_bytes > 0 or (home.ssd_bytes > 0 and random.random() < 0.2),
        ssd_bytes=ssd_bytes,
        inputs=tuple(Input(each.name, random.choice(SIZES_GB) * GB) for each in chosen),
        earliest_start_seconds=random.choice((0, 0, 0, 0, 1, 3600)),
        node=home.name if random.random() < 0.08 else None,
        group=home.group if random.random() < 0.15 else None,
        planned=Planned(home.name, random.choice(size.seconds)) if random.random() < 0.7 else Planned(),
    )


def _network(random: Random) -> Network:
    if random.random() < 0.3:
        return Network(path="storage")
    if random.random() < 0.3:
        return Network(rack=TransferRate(3 * GB, 7), cross_rack=TransferRate(GB, 11))
    return Network()
