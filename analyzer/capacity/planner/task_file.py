"""Read a task file: the tasks, the nodes and the network of a plan, in YAML, each key known and said once.

    start: 2026-11-23T08:00          # optional; else now. Also: "Monday 08:00", "in 2 h"
    finish_by: Friday 18:00          # optional; --finish-by goes before it. "in 20 h" counts from the start
    network:                         # optional, key by key; these are the defaults
      local: 10 GB/s                 # within one node
      rack: 1 GB/s                   # directly, within a rack
      cross_rack: 250 MB/s           # directly, across racks
      storage: 20 GB in 30 min       # written to network storage and read from there
      path: direct                   # between nodes: direct, or storage
    nodes:                           # by name; or `nodes: inventory`, or `nodes: {inventory: [group, …]}`
      gpuA: {rack: A, cpus: 16, memory: 128 GB, gpus: 1, sku: H100-80GB, hbm: 80 GB}   # of what the plan may use
      ssdA: {rack: A, group: C, cpus: 32, memory: 128 GB, ssd: 2 TB, price_per_hour: 1.20, available_from: in 2 h}
    tasks:                           # by name, in the order in which they arrive
      pretrain: {cpus: 8, memory: 32 GB, gpu: 1, hbm: 40 GB, duration: 3 h, output: 10 GB}
      tokenize: {cpus: 4, memory: 16 GB, gpu: forbidden, duration: {p10: 1 h, p50: 2 h, p90: 3 h}, after: [pretrain]}
      prep: {cpus: 16, memory: 64 GB, gpu: none, ssd: 200 GB, duration: {history: nightly-prep}, planned: {node: gpuA}}
      align: {cpus: 8, memory: 32 GB, gpu: none, duration: 4 h, after: {tokenize: 10 GB, prep: 5 GB},
              not_before: in 1 h, finish_by: Friday 12:00, node: ssdA, group: C, planned: {node: ssdA, start: in 9 h}}

`gpu` must be said of every task: a number of GPUs; `none`, which needs none and may use a node that has some; or
`forbidden`, which must stay off such nodes. `ssd: true` is a node with a local SSD, a size reserves as much of it.
`duration: {H100: 10 h, A100: 25 h}` is by the kind of GPU (`sku` of a node); on a node of another kind the task is not
placed. `{history: NAME, A100: 25 h}` takes runs of that name on the kinds that they ran on, and 25 h on an A100.
`after` as a list takes each task's `output`; as a table it says the bytes of each edge. A data set that lies on a node
is a task of `duration: 0 s` that is tied to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analyzer.capacity.planner.errors import ProblemError
from analyzer.capacity.planner.problem import Duration, Network, Node, Problem, Task, meant


@dataclass(frozen=True, slots=True)
class TaskFile:
    """What a task file says, its times in seconds from the start; what it leaves to the ledger is not looked up yet.

    `nodes` is None where they are the inventory's: of the groups in `inventory_groups`, or of all where that is empty.
    """

    tasks: tuple[Task, ...]
    nodes: tuple[Node, ...] | None
    network: Network
    starts_at: int  # microseconds, UTC
    deadline_seconds: int | None
    inventory_groups: tuple[str, ...] = ()

    @property
    def histories(self) -> tuple[str, ...]:
        """The names of runs in the ledger whose durations are asked for, each once."""
        return tuple(dict.fromkeys(task.history for task in self.tasks if task.history and task.duration is None))

    def problem(self) -> Problem:
        """Return the problem, once nodes and durations are known (dataclasses.replace puts them in).

        Raises:
            ProblemError: they are not, or the file contradicts itself.
        """
        nodes = self.nodes or ()
        kinds = sorted({node.sku for node in nodes if node.sku is not None})
        tasks = tuple(
            replace(task, durations=_of_kinds(task, kinds)) if task.durations else task for task in self.tasks
        )
        return Problem(tasks, nodes, self.network, self.deadline_seconds, self.starts_at)


def _of_kinds(task: Task, kinds: Sequence[str]) -> tuple[tuple[str, Duration], ...]:
    """Return the task's durations by the kinds that nodes have; what the file names and no node is of stays as it is.

    Raises:
        ProblemError: one name is that of several kinds, which differ.
    """
    said = dict(reversed(task.durations))  # of two of one kind the first counts
    found = {kind: name for kind in kinds if (name := meant(said, kind)) is not None}
    for name in said:
        if len(several := [kind for kind, of in found.items() if of == name]) > 1:
            raise ProblemError(f"task {task.name}: {name} may be {' or '.join(several)}; say a duration for each")
    others = {name: name for name in said if name not in found.values()}
    return tuple((kind, said[name]) for kind, name in (found | others).items())
