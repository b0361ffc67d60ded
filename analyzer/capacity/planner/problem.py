"""The question: which tasks need what for how long and after which others, and which nodes have it.

Times are whole seconds that count from the plan's start; what is not whole is rounded up, so that a plan is never
shorter than the truth. Sizes are bytes. A node carries several tasks at once, as far as its CPUs, memory, GPUs and SSD
go. A task starts when all of its inputs have arrived: the end of the task before, and then the transfer. Transfers
take no CPU and do not slow each other down.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from agent.wire.sku import sku
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
Path = Literal["direct", "storage"]
MEDIA: tuple[Medium, ...] = ("local", "rack", "cross_rack", "storage")
_GROUPS_NAMED = 8  # in a refusal
RESOURCES = ("cpus", "memory_bytes", "gpus", "ssd_bytes")  # of a node, and what a task takes of it while it runs
Amount = int | Decimal  # of CPUs or GPUs: whole, or in thousandths


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a task runs, in seconds: plans are made with the P50; one figure stands for all three.

    `runs` counts the runs of the ledger that it comes from; None where somebody said it.
    """

    p10_seconds: int
    p50_seconds: int
    p90_seconds: int
    runs: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.p10_seconds <= self.p50_seconds <= self.p90_seconds:
            raise ProblemError("a duration has 0 ≤ P10 ≤ P50 ≤ P90, in seconds")

    @classmethod
    def of(cls, seconds: int) -> "Duration":
        """Return a duration of one figure."""
        return cls(seconds, seconds, seconds)


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
    """One piece of work, on one node, without a break.

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
        rates: dict[Medium, TransferRate] = {
            "local": self.local,
            "rack": self.rack,
            "cross_rack": self.cross_rack,
            "storage": self.storage,
        }
        return rates[medium].seconds_for(size_bytes)

    def medium(self, source: Node, target: Node) -> Medium:
        """Return what data takes from one node to another."""
        if source.name == target.name:
            return "local"
        if self.path == "storage":
            return "storage"
        return "rack" if source.rack is not None and source.rack == target.rack else "cross_rack"


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

    def __post_init__(self) -> None:
        for what, names in (("tasks", [t.name for t in self.tasks]), ("nodes", [n.name for n in self.nodes])):
            if not names:
                raise ProblemError(f"there are no {what}: a plan needs at least one")
            if len(set(names)) < len(names):
                twice = next(name for number, name in enumerate(names) if name in names[:number])
                raise ProblemError(f"two {what} are named {twice!r}: give one of them another name")
        for node in self.nodes:
            _not_negative(f"node {node.name}", *_figures(node), node.hbm_bytes, node.available_from_seconds)
        for task in self.tasks:
            self._check(task)
        _ = self.order
        for task in self.tasks:
            if not self.eligible[task.name]:
                raise ProblemError(f"task {task.name} fits no node: {self._why_not(task)}")

    def _check(self, task: Task) -> None:
        about = f"task {task.name}"
        sizes = [each.bytes for each in task.inputs]
        _not_negative(about, *_figures(task), task.hbm_bytes, task.earliest_start_seconds, *sizes)
        if task.duration is None and not task.durations:
            of = f" of runs named {task.history!r}" if task.history else ""
            raise ProblemError(f"{about}: its duration{of} is not known; give it, as in duration: 3 h")
        if task.gpus and task.avoids_gpu_nodes:
            raise ProblemError(f"{about} needs {task.gpus} GPUs and is to avoid nodes with GPUs: set only one of them")
        if task.ssd_bytes and not task.needs_ssd:
            raise ProblemError(f"{about} reserves SSD and does not need one: set ssd once, with the size")
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

    def _why_not(self, task: Task) -> str:
        """Return what each of a few nodes lacks for the task."""
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
    def eligible(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that each task could run on, were it alone, by the task's name."""
        return {task.name: tuple(node for node in self.nodes if lacks(node, task) is None) for task in self.tasks}

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

    def transfer_seconds(self, size_bytes: int, source: Node, target: Node) -> int:
        """Return how long bytes take from node to node."""
        return self.network.seconds(self.network.medium(source, target), size_bytes)


def lacks(node: Node, task: Task) -> str | None:
    """Return what keeps an otherwise empty node from running the task, as the end of a sentence; None where it fits."""
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
        return _too_little("memory on each GPU", node.hbm_bytes, task.hbm_bytes)
    return None


def _too_little(what: str, has: Amount, needs: Amount) -> str:
    if what in ("CPU", "GPU"):
        return f"has {counted(has, what)}, not {needs:,}"
    told, wanted = bytes_words(int(has)), bytes_words(int(needs))
    if told == wanted:
        told, wanted = f"{has:,} B", f"{needs:,} B"
    return f"has {told} of {what}, not {wanted}"


def _figures(about: Task | Node) -> tuple[Amount, Amount, Amount, Amount]:
    """Return what of each of RESOURCES there is, or is needed."""
    return about.cpus, about.memory_bytes, about.gpus, about.ssd_bytes


def _not_negative(about: str, *figures: Amount) -> None:
    if min(figures) < 0:
        raise ProblemError(f"{about} has a figure below 0")


def means(said: str, kind: str) -> bool:
    """Say whether a name, as people write it ("H100", "NVIDIA H100 80GB HBM3"), is of a kind of the ledger."""
    return _words(said) <= _words(kind)


def meant(said: Iterable[str], kind: str) -> str | None:
    """Return which of the names is of a kind, the most exact one; None where none is."""
    return max((name for name in said if means(name, kind)), key=lambda name: len(_words(name)), default=None)


@lru_cache(maxsize=4096)
def _words(name: str) -> frozenset[str]:
    return frozenset(sku(name, None).casefold().split("-"))
