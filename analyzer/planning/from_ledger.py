"""What a task file leaves to the ledger, looked up: durations of recurring jobs, and the inventory's nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analyzer.errors import ConfigError
from analyzer.planning.history import History
from analyzer.planning.ledger import Ledger
from analyzer.planning.offered import LeftOut, offered
from analyzer.planning.problem import Duration, Task
from analyzer.planning.task_file import TaskFile
from analyzer.report.words import plain, plain_sentence

NODES_NAMED = 3


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A task file whose problem can be made, and what of the ledger is in it.

    `samples` are the wall times in seconds behind a task's duration, by the task's name. `left_out` are nodes of the
    inventory that the plan may not use, each with why.
    """

    file: TaskFile
    histories: tuple[History, ...] = ()
    samples: tuple[tuple[str, tuple[int, ...]], ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def asks_ledger(file: TaskFile) -> bool:
    """Return whether a task file leaves anything to the ledger."""
    return file.nodes is None or bool(file.histories)


def look_up(ledger: Ledger, file: TaskFile) -> LookedUp:
    """Return the file with durations and nodes of the ledger in their places.

    Raises:
        ConfigError: the ledger has too few runs of a name, or no node of a group.
        LedgerError: the ledger is empty.
        StoreError: the store does not answer.
    """
    found: dict[tuple[str, int], History] = {}
    for task in file.tasks:
        key = _asked(task)
        if key is not None and key not in found:
            found[key] = ledger.history(*key)
    of_task = {task.name: found[key] for task in file.tasks if (key := _asked(task)) is not None}
    tasks = tuple(_timed(task, of_task.get(task.name)) for task in file.tasks)
    left_out: tuple[LeftOut, ...] = ()
    nodes = file.nodes
    if nodes is None:
        nodes, left_out = offered(ledger.nodes(), file.inventory_groups, file.starts_at)
        if not nodes:
            raise ConfigError(_nothing(left_out))
    return LookedUp(
        replace(file, tasks=tasks, nodes=nodes),
        tuple(found.values()),
        tuple((name, history.seconds) for name, history in of_task.items()),
        left_out,
    )


def _nothing(left_out: Sequence[LeftOut]) -> str:
    told = "; ".join(f"{plain(one.node)}: {plain_sentence(one.why)}" for one in left_out[:NODES_NAMED])
    more = f"; and {len(left_out) - NODES_NAMED} more" if len(left_out) > NODES_NAMED else ""
    why = f"{told or 'the ledger knows no node'}{more}"
    return f"nodes: inventory offers a plan nothing now ({why}); name the nodes instead"


def _asked(task: Task) -> tuple[str, int] | None:
    """Return the name and size of the runs that a task's duration is to come from."""
    return (task.history, task.gpus) if task.history is not None and task.duration is None else None


def _timed(task: Task, history: History | None) -> Task:
    if history is None:
        return task
    return replace(task, duration=Duration(history.p10_seconds, history.p50_seconds, history.p90_seconds, history.runs))
