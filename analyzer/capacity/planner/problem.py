"""The question: which tasks need what for how long and after which others, and which nodes have it.

Times are whole seconds that count from the plan's start; what is not whole is rounded up, so that a plan is never
shorter than the truth. Sizes are bytes. A node carries several tasks at once, as far as its CPUs, memory, GPUs and SSD
go, and none while it is away. A gang runs on several nodes of one kind at once, with an equal share of it on each. A
task starts when all of its inputs have arrived: the end of the task before, and then the transfer. Transfers take no
CPU and do not slow each other down.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import ceil
from typing import Literal

from agent.wire.units import GB
from analyzer.errors import AnalyzerError, ConfigError
from analyzer.text.words import bytes_words, counted


# ConfigError              exit 2
# ├── ProblemError         the tasks and nodes contradict themselves, or a task fits nowhere
# │   └── TaskFileError    a task file says what no task file can
# ├── UnseenError          the ledger never saw a job on a kind of GPU, or not often enough
# └── ProposalError        a proposed plan cannot be read
class ProblemError(ConfigError):
    """Tasks, nodes and edges contradict themselves, or a task fits no node; the message names it and the way out."""


class TaskFileError(ProblemError):
    """A task file cannot be read, or says what no task file can."""


class UnseenError(ConfigError):
    """The ledger has too few runs of a job on a kind of GPU to say how long it takes there."""


class ProposalError(ConfigError):
    """What somebody proposes cannot be read as a plan; the message says which part and what it should be."""


class ModelError(AnalyzerError):
    """The model cannot be reached, refuses, or says what is no task file; exit 3. No key is ever in the message."""


Medium = Literal["local", "rack", "cross_rack", "storage"]
Within = Literal["rack", "block"]
Path = Literal["direct", "storage"]
MEDIA: tuple[Medium, ...] = ("local", "rack", "cross_rack", "storage")
_GROUPS_NAMED = 8
RESOURCES = ("cpus", "memory_bytes", "gpus", "ssd_bytes")  # of a node, and what a task takes of it while it runs
Amount = int | Decimal  # of CPUs or GPUs: whole, or in thousandths


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a task runs, in seconds: plans are made with the P50; one figure stands for all three.

    `runs` counts those of the ledger; None where somebody said it. `predicted_from` is the kind that was seen."""

    p10_seconds: int
    p50_seconds: int
    p90_seconds: int
    runs: int | None = None
    predicted_from: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.p10_seconds <= self.p50_seconds <= self.p90_seconds:
            raise ProblemError("a duration has 0 ≤ P10 ≤ P50 ≤ P90, in seconds")

    @classmethod
    def of(cls, seconds: int) -> "Duration":
        """Return a duration of one figure."""
        return cls(seconds, seconds, seconds)

    def times(self, permille: int) -> "Duration":
        """Return it by so many thousandths, rounded up."""
        spans = {f"p{at}_seconds": -(-getattr(self, f"p{at}_seconds") * permille // 1000) for at in (10, 50, 90)}
        return replace(self, **spans)


@dataclass(frozen=True, slots=True)
class Input:
    """What a task waits for: the end of another, and so many bytes from there (0: its end alone)."""

    task: str
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """Where and when a task runs as things stand; None where nobody has decided. Moves and delays count from it."""

    node: str | None = None
    start_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work, on one node or on several at once, without a break.

    All figures are of the whole task. It runs on `hosts` nodes; where that is None on one, or on as few as have its
    GPUs together. `within` keeps them in one rack or block; in several it takes `crossing_permille` of its duration:
    in several racks, and in several blocks. An elastic task has one of `sizes`, each a task of so many GPUs.

    `gpus` 0 is a task that needs no GPU; `avoids_gpu_nodes` says that it must also stay off nodes that have some
    (`gpu: none` and `gpu: forbidden` of a task file). `needs_ssd` with `ssd_bytes` 0 is a node with a local SSD, of
    which it reserves nothing. `duration` holds wherever it runs; where that depends on the kind of GPU it is None, and
    `durations` has one for each kind of the nodes that somebody named or the ledger saw it on. On a node of any other
    kind the task is not placed. Both are empty until `history`, the name of runs in the ledger, is looked up.
    """

    name: str
    cpus: Amount
    memory_bytes: int
    duration: Duration | None
    gpus: Amount = 0
    hbm_bytes: int = 0  # of each of its GPUs, at least
    avoids_gpu_nodes: bool = False
    needs_ssd: bool = False
    ssd_bytes: int = 0
    inputs: tuple[Input, ...] = ()
    history: str | None = None
    earliest_start_seconds: int = 0
    deadline_seconds: int | None = None  # its own; the problem has one for all
    node: str | None = None  # it must run there
    group: str | None = None  # it must run on a node of this group
    planned: Planned = Planned()
    durations: tuple[tuple[str, Duration], ...] = ()  # by kind of GPU, as the nodes have it
    array: str | None = None  # of which it is one of many equal tasks
    hosts: int | None = None
    within: Within | None = None
    crossing_permille: tuple[int, int] = (1000, 1000)
    sizes: tuple["Task", ...] = ()
    licences: tuple[tuple[str, int], ...] = ()
    speeds: tuple[tuple[str, Amount], ...] = ()  # by kind of GPU: what it is not known to take there follows from them

    def crossing(self, nodes: Sequence["Node"]) -> int:
        """Return how long it takes on nodes that data has to cross between, in thousandths of its duration."""
        return (1000, *self.crossing_permille)[crossings(nodes)]

    @property
    def seconds(self) -> int:
        """The P50 of a duration that holds wherever it runs."""
        if self.duration is None:
            raise ProblemError(f"BUG: the duration of {self.name} depends on its node, or was not looked up")
        return self.duration.p50_seconds

    def duration_on(self, node: "Node") -> Duration | None:
        """Return how long it takes on a node; None where nobody knows."""
        if self.duration is not None or node.sku is None:
            return self.duration
        return next((one for kind, one in self.durations if kind == node.sku), None)


@dataclass(frozen=True, slots=True)
class Node:
    """One machine, and what of it the plan may use. A node without a known rack shares a rack with no other."""

    name: str
    cpus: Amount
    memory_bytes: int
    gpus: int = 0
    hbm_bytes: int = 0  # of each GPU
    ssd_bytes: int = 0  # 0: it has no local SSD
    rack: str | None = None
    group: str | None = None
    price_micros_per_hour: int | None = None  # of the whole node; None: not known
    available_from_seconds: int = 0
    sku: str | None = None  # the kind of its GPUs; None: not known, or there are several
    block: str | None = None  # of racks
    away: tuple[tuple[int, int], ...] = ()  # from when until when it runs nothing: maintenance, reservations


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to run a task: on so many nodes of one kind at once, each of which carries `share` of it."""

    hosts: int
    share: Task

    @property
    def gpus(self) -> Amount:
        """The GPUs of all its nodes together."""
        return self.share.gpus * self.hosts


@dataclass(frozen=True, slots=True)
class TransferRate:
    """A speed as it was said: so many bytes in so many seconds ("20 GB in 30 min" is no whole number a second)."""

    bytes: int
    seconds: int = 1

    def __post_init__(self) -> None:
        if self.bytes <= 0 or self.seconds <= 0:
            raise ProblemError("a transfer rate is bytes in seconds, both over 0, as in 1 GB/s or 20 GB in 30 min")

    def seconds_for(self, size_bytes: int) -> int:
        """Return how long so many bytes take, rounded up."""
        return -(-size_bytes * self.seconds // self.bytes)


@dataclass(frozen=True, slots=True)
class Network:
    """How fast data gets from task to task, by what lies between their nodes.

    Within one node it is a local copy always. Between nodes it goes directly (`path` direct: by rack or across racks),
    or is written to network storage and read from there (`path` storage: one rate for both, wherever the nodes are).
    The defaults are the four rates of the articles that asked for this: 20 GB in 2 s on a local SSD, in 30 min over
    network storage.
    """

    local: TransferRate = TransferRate(10 * GB)
    rack: TransferRate = TransferRate(1 * GB)
    cross_rack: TransferRate = TransferRate(GB // 4)
    storage: TransferRate = TransferRate(20 * GB, 1800)
    path: Path = "direct"

    def seconds(self, medium: Medium, size_bytes: int) -> int:
        """Return how long so many bytes take over a medium, rounded up to whole seconds."""
        rate: TransferRate = getattr(self, medium)
        return rate.seconds_for(size_bytes)


@dataclass(frozen=True)
class Problem:
    """Tasks, nodes, network, and by when all is to be done; checked, so that solvers need not look again.

    Raises:
        ProblemError: a name occurs twice or is unknown, tasks wait for each other in a circle, a figure is negative, a
            duration is not known, or a task fits no node.
    """

    tasks: tuple[Task, ...]  # in the order in which they arrived
    nodes: tuple[Node, ...]
    network: Network = Network()
    deadline_seconds: int | None = None
    starts_at: int = 0  # microseconds, UTC: second 0 of the plan
    licences: tuple[tuple[str, int], ...] = ()  # how many of each may be held at once, wherever tasks run

    def __post_init__(self) -> None:
        for what, names in (("tasks", [t.name for t in self.tasks]), ("nodes", [n.name for n in self.nodes])):
            if not names:
                raise ProblemError(f"there are no {what}: a plan needs at least one")
            if len(set(names)) < len(names):
                twice = next(name for number, name in enumerate(names) if name in names[:number])
                raise ProblemError(f"two {what} are named {twice!r}: give one of them another name")
        for node in self.nodes:
            _not_negative(f"node {node.name}", *_figures(node), node.hbm_bytes, node.available_from_seconds)
            if any(not 0 <= begin < end for begin, end in node.away):
                raise ProblemError(f"node {node.name} is away from a moment before the start, or until before it goes")
        for task in self.tasks:
            self._check(task)
        _ = self.order
        for task in self.tasks:
            if not self.eligible[task.name]:
                raise ProblemError(f"task {task.name} fits no node: {self._why_not(task)}")
            shapes = self.shapes[task.name]
            if [shape.hosts for shape in shapes] != [1] and not any(self.domains(task, shape) for shape in shapes):
                raise ProblemError(f"task {task.name} fits no nodes together: {self._why_not_together(task)}")

    def _check(self, task: Task) -> None:
        about = f"task {task.name}"
        self._check_figures(task, about)
        before = [each.task for each in task.inputs]
        for name in before:
            if name not in self.task_by_name:
                raise ProblemError(f"{about} comes after {name!r}, which is not a task of this problem")
        if len(set(before)) < len(before):
            raise ProblemError(f"{about} comes after the same task twice: name it once, with all of its bytes")
        for how, node in (("is tied to", task.node), ("is planned on", task.planned.node)):
            if node is not None and node not in self.node_by_name:
                raise ProblemError(f"{about} {how} node {node!r}, which is not a node of this problem")
        groups = sorted({each.group for each in self.nodes if each.group is not None})
        if task.group is not None and task.group not in groups:
            known = ", ".join(groups[:_GROUPS_NAMED]) + (", …" if len(groups) > _GROUPS_NAMED else "")
            raise ProblemError(
                f"{about} is tied to group {task.group!r}, which no node is in; the groups are {known or 'not given'}"
            )

    def _check_figures(self, task: Task, about: str) -> None:
        sizes = [each.bytes for each in task.inputs]
        _not_negative(about, *_figures(task), task.hbm_bytes, task.earliest_start_seconds, *sizes)
        for one in task.sizes:
            self._check(one)
        has = dict(self.licences)
        for name, count in task.licences:
            if count > has.get(name, 0):
                there = f"there are {has[name]:,}" if name in has else "licenses does not say how many there are"
                raise ProblemError(f"{about} needs {count:,} of license {name}, and {there}")
        if task.duration is None and not task.durations and not task.sizes:
            of = f" of runs named {task.history!r}" if task.history else ""
            raise ProblemError(f"{about}: its duration{of} is not known; give it, as in duration: 3 h")
        if task.gpus and task.avoids_gpu_nodes:
            raise ProblemError(f"{about} needs {task.gpus} GPUs and is to avoid nodes with GPUs: set only one of them")
        if not 1000 <= task.crossing_permille[0] <= task.crossing_permille[1]:
            raise ProblemError(f"{about} is faster across racks or blocks than within one: give 1 or more, blocks last")
        if task.hosts is not None and (task.hosts < 1 or task.gpus % task.hosts):
            raise ProblemError(f"{about}: its {task.gpus:,} GPUs are not whole on each of {task.hosts:,} hosts")
        if task.ssd_bytes and not task.needs_ssd:
            raise ProblemError(f"{about} reserves SSD and does not need one: set ssd once, with the size")

    def _why_not(self, task: Task) -> str:
        """Return what each of a few nodes lacks for the task."""
        task = self.shapes[task.name][0].share
        told = [f"{node.name} {lacks(node, task)}" for node in self.nodes[:3]]
        rest = f"; nor does any of {counted(len(self.nodes) - 3, 'more node')} fit" if len(self.nodes) > 3 else ""
        if any(lacks_parts(node, task) is None for node in self.nodes):
            return "; ".join(told) + rest + ". Give in duration how long it takes there, as in {A100-80GB: 25 h}"
        return "; ".join(told) + rest + ". Ask for less, or add a node"

    @cached_property
    def task_by_name(self) -> dict[str, Task]:
        """Tasks by name."""
        return {task.name: task for task in self.tasks}

    @cached_property
    def node_by_name(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def node_number(self) -> dict[str, int]:
        """The nodes' positions by name."""
        return {node.name: at for at, node in enumerate(self.nodes)}

    @cached_property
    def task_number(self) -> dict[str, int]:
        """The tasks' positions by name."""
        return {task.name: at for at, task in enumerate(self.tasks)}

    def _why_not_together(self, task: Task) -> str:
        """Return how many nodes a gang needs at once, and how many of one kind there are."""
        shape = self.shapes[task.name][0]
        most = max(Counter(node.sku for node in self.nodes if lacks(node, shape.share) is None).values(), default=0)
        needs = f"{counted(shape.hosts, 'node')} of {counted(shape.share.gpus, 'GPU')}"
        within = f" in one {task.within}" if task.within else ""
        way_out = f", in several {task.within}s; leave within out" if most >= shape.hosts else ". Ask for less"
        return f"it needs {needs}{within} at once, and of one kind there are {most:,}{way_out}, or add nodes"

    @cached_property
    def shapes(self) -> dict[str, tuple[Shape, ...]]:
        """The ways to run each task, by its name."""
        sizes = sorted({node.gpus for node in self.nodes if node.gpus})
        return {
            task.name: tuple(shape for one in task.sizes or (task,) for shape in _shapes(one, sizes))
            for task in self.tasks
        }

    def duration_on(self, task: Task, nodes: Sequence[str], gpus: Amount | None = None) -> Duration:
        """Return how long a task takes on these nodes, an elastic one with so many GPUs, where that is known."""
        there = [self.node_by_name[name] for name in nodes]
        shapes = (one for one in self.shapes[task.name] if one.hosts == len(there) and gpus in (None, one.gpus))
        duration = next(shapes).share.duration_on(there[0])
        assert duration is not None, f"BUG: how long {task.name} takes on {nodes[0]} is not known"  # noqa: S101
        return duration.times(task.crossing(there))

    def domains(self, task: Task, shape: Shape) -> list[tuple[Node, ...]]:
        """Return sets of nodes of one kind, any `hosts` of which can run the task so, the narrowest sets first."""
        found: dict[tuple[str, ...], tuple[Node, ...]] = {}
        fitting = [node for node in self.nodes if lacks(node, shape.share) is None]
        if task.within == "block":
            fitting = [node for node in fitting if node.block is not None]
        levels = {"rack": ("rack",), "block": ("rack", "block"), None: ("rack", "block", "fleet")}[task.within]
        for level in levels if shape.hosts > 1 else ("host",):
            together: dict[object, list[Node]] = {}
            for node in fitting:
                block = node.block if task.within == "block" else None
                together.setdefault((node.sku, block, _WITHIN[level](node)), []).append(node)
            for nodes in together.values():
                if len(nodes) >= shape.hosts:
                    found.setdefault(tuple(node.name for node in nodes), tuple(nodes))
        return list(found.values())

    @cached_property
    def eligible(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that could carry each task, or a share of it, were it alone, by the task's name."""
        return {
            name: tuple(node for node in self.nodes if any(lacks(node, shape.share) is None for shape in shapes))
            for name, shapes in self.shapes.items()
        }

    @cached_property
    def order(self) -> tuple[Task, ...]:
        """The tasks, each after all that it waits for."""
        before = {task.name: [each.task for each in task.inputs] for task in self.tasks}
        try:
            return tuple(self.task_by_name[name] for name in TopologicalSorter(before).static_order())
        except CycleError as error:
            circle = " → ".join(error.args[1])
            raise ProblemError(f"tasks wait for each other in a circle: {circle}; take one 'after' out") from error

    def edges(self) -> Iterator[tuple[Task, Task, int]]:
        """Yield each task before, task after, and the bytes between them."""
        for task in self.tasks:
            for each in task.inputs:
                yield self.task_by_name[each.task], task, each.bytes

    def medium(self, before: Sequence[str], after: Sequence[str]) -> Medium:
        """Return what data takes from the nodes of a task to those of another: of several the longest way."""
        nodes = [self.node_by_name[name] for name in {*before, *after}]
        if len(nodes) == 1 or self.network.path == "storage":
            return "local" if len(nodes) == 1 else "storage"
        return "cross_rack" if crossings(nodes) else "rack"


# What nodes share that are within one of each; a node without a rack shares a rack with no other.
_WITHIN: dict[str, Callable[[Node], object]] = {
    "host": lambda node: node.name,
    "rack": lambda node: node.rack or (node.name,),
    "block": lambda node: node.block,
    "fleet": lambda _: None,
}


def crossings(nodes: Sequence[Node]) -> int:
    """Return whether nodes are in one rack (0), in several (1), or in several blocks (2)."""
    racks, blocks = (len({_WITHIN[level](node) for node in nodes}) for level in ("rack", "block"))
    return 0 if racks == 1 else min(blocks, 2)


def _shapes(task: Task, sizes: Sequence[int]) -> Iterator[Shape]:
    """Yield the ways to run a task of one size: on one node, on as many as it says, or on as few as have its GPUs.

    `sizes` are the numbers of GPUs that nodes have.
    """
    if task.hosts is not None or task.gpus <= max(sizes, default=task.gpus):
        yield Shape(task.hosts or 1, _share(task, task.hosts or 1))
        return
    counts = sorted({-(-int(task.gpus) // size) for size in sizes})
    shapes = [Shape(hosts, _share(task, hosts)) for hosts in counts if not task.gpus % hosts]
    yield from shapes or [Shape(1, task)]


def _share(task: Task, hosts: int) -> Task:
    """Return what one of so many nodes carries of a task, rounded up."""
    if hosts == 1:
        return task
    millis = ceil(Fraction(task.cpus) * 1000 / hosts)
    cpus = -(-millis // 1000) if isinstance(task.cpus, int) else Decimal(millis) / 1000
    memory, ssd = -(-task.memory_bytes // hosts), -(-task.ssd_bytes // hosts)
    return replace(task, cpus=cpus, memory_bytes=memory, gpus=int(task.gpus) // hosts, ssd_bytes=ssd)


def lacks(node: Node, task: Task) -> str | None:
    """Return what keeps an empty node from running the task, as the end of a sentence; None where it fits."""
    return lacks_parts(node, task) or lacks_duration(node, task)


def lacks_duration(node: Node, task: Task) -> str | None:
    """Return that nobody knows how long the task takes on a node, as the end of a sentence; None where it is known."""
    if task.duration_on(node) is not None:
        return None
    known = " and ".join(name for name, _ in task.durations)
    what = "is of a kind of GPU that is not known" if node.sku is None else f"is of {node.sku}"
    return f"{what}, and how long the task takes is known only on {known}"


def lacks_parts(node: Node, task: Task) -> str | None:
    """Return what a node does not have that the task needs, as the end of a sentence; None where it has all."""
    if task.node is not None and task.node != node.name:
        return f"is not {task.node}, where the task must run"
    if task.group is not None and task.group != node.group:
        return f"is not in group {task.group}"
    if task.avoids_gpu_nodes and node.gpus:
        return "has GPUs, which the task is to stay off"
    if task.needs_ssd and not node.ssd_bytes:
        return "has no local SSD"
    for what, has, needs in zip(("CPU", "memory", "GPU", "local SSD"), _figures(node), _figures(task), strict=True):
        if needs > has:
            return _too_little(what, has, needs)
    if task.gpus and task.hbm_bytes > node.hbm_bytes:
        if not node.hbm_bytes:
            return f"does not say how much memory its GPUs have (hbm), and {bytes_words(task.hbm_bytes)} is needed"
        return _too_little("memory on each GPU", node.hbm_bytes, task.hbm_bytes)
    return None


def _too_little(what: str, has: Amount, needs: Amount) -> str:
    if what in ("CPU", "GPU"):
        return f"has {counted(has, what)}, not {needs:,}"
    told, wanted = bytes_words(int(has)), bytes_words(int(needs))
    told, wanted = (told, wanted) if told != wanted else (f"{has:,} B", f"{needs:,} B")
    return f"has {told} of {what}, not {wanted}"


def _figures(about: Task | Node) -> tuple[Amount, Amount, Amount, Amount]:
    """Return what of each of RESOURCES there is, or is needed."""
    return about.cpus, about.memory_bytes, about.gpus, about.ssd_bytes


def _not_negative(about: str, *figures: Amount) -> None:
    if min(figures) < 0:
        raise ProblemError(f"{about} has a figure below 0")
