"""Read a task file, whose format task_file.py describes: each key known and said once, each unit said."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, get_args

import yaml

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.entry import TaskEntry
from analyzer.capacity.planner.errors import ProblemError, TaskFileError
from analyzer.capacity.planner.moments import parse_moment
from analyzer.capacity.planner.problem import Duration, Input, Network, Node, Path, Planned, Task
from analyzer.capacity.planner.task_file import TaskFile
from analyzer.capacity.planner.units import size_bytes, span_seconds, transfer_rate
from analyzer.settings.yaml_text import yaml_said

_LETTERS_MOST: Final = 4 * 2**20
_TASKS_MOST = _NODES_MOST = 10_000
_DEEPEST = 6
_TOP = ("start", "finish_by", "network", "nodes", "tasks")
_NETWORK = ("local", "rack", "cross_rack", "storage", "path")
_NODE = ("rack", "group", "cpus", "memory", "gpus", "sku", "hbm", "ssd", "price_per_hour", "available_from")
_QUANTILES = ("p10", "p50", "p90")
_TASK = (
    "cpus", "memory", "gpu", "hbm", "ssd", "duration", "output", "after", "not_before", "finish_by", "node", "group",
    "planned",
)  # fmt: skip


def read_tasks(
    text: str, now: int, timezone: str = "UTC", where: str = "the task file", start: str | None = None
) -> TaskFile:
    """Return what a task file says; `now` in microseconds UTC is when it starts where neither it nor `start` says.

    Raises:
        TaskFileError: it is too long, no YAML, or says what no task file can.
    """
    if len(text) > _LETTERS_MOST:
        raise TaskFileError(f"{where} has {len(text):,} letters; split what has over {_LETTERS_MOST:,}")
    top = TaskEntry.of(where, _parsed(where, text), _TOP)
    starts_at = now
    if start is not None:
        starts_at = parse_moment("--start", start, now, timezone)
    elif top.has("start"):
        starts_at = parse_moment(f"{where}: start", top.said("start"), now, timezone)
    clock = _Clock(starts_at, timezone)
    nodes, groups = _nodes(top, clock)
    return TaskFile(
        tasks=_tasks(top, clock),
        nodes=nodes,
        network=_network(top),
        starts_at=starts_at,
        deadline_seconds=clock.deadline(top, "finish_by"),
        inventory_groups=groups,
    )


@dataclass(frozen=True, slots=True)
class _Clock:
    """Where seconds count from, and whose days are meant."""

    starts_at: int
    timezone: str

    def deadline(self, entry: TaskEntry, key: str) -> int | None:
        """Return a moment in whole seconds from the start, rounded down; None where it is left out."""
        return self._seconds(entry, key, up=False) if entry.has(key) else None

    def earliest(self, entry: TaskEntry, key: str) -> int:
        """Return a moment in whole seconds from the start, rounded up; 0 where it is left out or has gone by."""
        return max(0, self._seconds(entry, key, up=True)) if entry.has(key) else 0

    def _seconds(self, entry: TaskEntry, key: str, *, up: bool) -> int:
        after = parse_moment(f"{entry.where}: {key}", entry.said(key), self.starts_at, self.timezone) - self.starts_at
        if after < 0 and not up:
            raise TaskFileError(f"{entry.where}: {key} is before the start; say a later moment, or an earlier start")
        return -(-after // SECOND_US) if up else after // SECOND_US


def _parsed(where: str, text: str) -> object:
    try:
        return yaml_said(text, _DEEPEST)
    except (ValueError, yaml.YAMLError) as error:
        raise TaskFileError(f"{where} cannot be read as YAML: {' '.join(str(error).split())[:300]}") from error
    except RecursionError as error:
        raise TaskFileError(f"{where} is nested too deeply to be read") from error


def _network(top: TaskEntry) -> Network:
    if not top.has("network"):
        return Network()
    entry = top.entry("network", _NETWORK)
    rates = {key: transfer_rate(f"{entry.where}: {key}", entry.said(key)) for key in _NETWORK[:-1] if entry.has(key)}
    network = replace(Network(), **rates)  # type: ignore[arg-type]  # each of them is a rate
    return replace(network, path=entry.one_of("path", get_args(Path))) if entry.has("path") else network  # type: ignore[arg-type]


def _nodes(top: TaskEntry, clock: _Clock) -> tuple[tuple[Node, ...] | None, tuple[str, ...]]:
    """Return the nodes, or None and the groups of the inventory where they are to be looked up."""
    said = top.said("nodes")
    if said == "inventory":
        return None, ()
    if isinstance(said, Mapping) and [*said] == ["inventory"] and not isinstance(said["inventory"], Mapping):
        return None, TaskEntry.of(f"{top.where}: nodes", said, ("inventory",)).names("inventory")
    return tuple(_node(name, entry, clock) for name, entry in top.entries("nodes", _NODE, _NODES_MOST)), ()


def _node(name: str, entry: TaskEntry, clock: _Clock) -> Node:
    return Node(
        name=name,
        cpus=entry.count("cpus"),
        memory_bytes=entry.size("memory"),
        gpus=entry.count("gpus") if entry.has("gpus") else 0,
        hbm_bytes=entry.size("hbm") if entry.has("hbm") else 0,
        ssd_bytes=entry.size("ssd") if entry.has("ssd") else 0,
        rack=entry.name("rack") if entry.has("rack") else None,
        group=entry.name("group") if entry.has("group") else None,
        price_micros_per_hour=entry.micros("price_per_hour") if entry.has("price_per_hour") else None,
        available_from_seconds=clock.earliest(entry, "available_from"),
        sku=entry.name("sku") if entry.has("sku") else None,
    )


def _tasks(top: TaskEntry, clock: _Clock) -> tuple[Task, ...]:
    entries = [*top.entries("tasks", _TASK, _TASKS_MOST)]
    outputs = {name: entry.size("output") if entry.has("output") else 0 for name, entry in entries}
    return tuple(_task(name, entry, clock, outputs) for name, entry in entries)


def _task(name: str, entry: TaskEntry, clock: _Clock, outputs: Mapping[str, int]) -> Task:
    gpus, avoids = _gpu(entry)
    needs_ssd, ssd_bytes = _ssd(entry)
    duration, durations, history = _duration(entry)
    if durations and not gpus:
        raise TaskFileError(f"{entry.where}: a duration by kind of GPU needs gpu: how many; else say one duration")
    return Task(
        name=name,
        cpus=entry.count("cpus"),
        memory_bytes=entry.size("memory"),
        duration=duration,
        gpus=gpus,
        hbm_bytes=entry.size("hbm") if entry.has("hbm") else 0,
        avoids_gpu_nodes=avoids,
        needs_ssd=needs_ssd,
        ssd_bytes=ssd_bytes,
        inputs=_inputs(entry, outputs),
        history=history,
        earliest_start_seconds=clock.earliest(entry, "not_before"),
        deadline_seconds=clock.deadline(entry, "finish_by"),
        node=entry.name("node") if entry.has("node") else None,
        group=entry.name("group") if entry.has("group") else None,
        planned=_planned(entry, clock),
        durations=durations,
    )


def _gpu(entry: TaskEntry) -> tuple[int, bool]:
    """Return how many GPUs a task needs, and whether it must stay off nodes that have some."""
    if not entry.has("gpu"):
        raise TaskFileError(
            f"{entry.where}: gpu is missing; say how many, none (it needs none), or forbidden "
            "(it must stay off GPU nodes)"
        )
    if entry.said("gpu") in ("none", "forbidden"):
        return 0, entry.said("gpu") == "forbidden"
    try:
        return entry.count("gpu"), False
    except TaskFileError as error:
        raise TaskFileError(f"{entry.where}: gpu must be a whole number, none, or forbidden") from error


def _ssd(entry: TaskEntry) -> tuple[bool, int]:
    said = entry.said("ssd") if entry.has("ssd") else False
    return (said, 0) if isinstance(said, bool) else (True, size_bytes(f"{entry.where}: ssd", said))


def _duration(entry: TaskEntry) -> tuple[Duration | None, tuple[tuple[str, Duration], ...], str | None]:
    """Return how long a task takes anywhere, or by kind of GPU, and the name of the runs that say it."""
    if not entry.has("duration"):
        raise TaskFileError(
            f"{entry.where}: duration is missing; say it, as in 3 h, {{H100: 10 h, A100: 25 h}}, or {{history: NAME}}"
        )
    said = entry.said("duration")
    if not isinstance(said, Mapping) or said.keys() & set(_QUANTILES):
        return _one_duration(entry, "duration"), (), None
    by_kind = entry.entry("duration", None)
    kinds = tuple((kind, _one_duration(by_kind, kind)) for kind in by_kind.keys_said if kind != "history")
    return None, kinds, by_kind.name("history") if by_kind.has("history") else None


def _one_duration(entry: TaskEntry, key: str) -> Duration:
    said = entry.said(key)
    if not isinstance(said, Mapping):
        return Duration.of(span_seconds(f"{entry.where}: {key}", said))
    quantiles = entry.entry(key, _QUANTILES)
    p10, p50, p90 = (span_seconds(f"{quantiles.where}: {key}", quantiles.said(key)) for key in _QUANTILES)
    try:
        return Duration(p10, p50, p90)
    except ProblemError as error:
        raise TaskFileError(f"{entry.where}: {error}") from error


def _inputs(entry: TaskEntry, outputs: Mapping[str, int]) -> tuple[Input, ...]:
    """Return what a task waits for: of a list each task's output, of a table the bytes of each edge."""
    if not entry.has("after"):
        return ()
    said = entry.said("after")
    if isinstance(said, Mapping):
        table = entry.entry("after", None)
        return tuple(Input(name, table.size(name)) for name in table.keys_said)
    return tuple(Input(name, outputs.get(name, 0)) for name in entry.names("after"))  # an unknown one is refused later


def _planned(entry: TaskEntry, clock: _Clock) -> Planned:
    if not entry.has("planned"):
        return Planned()
    planned = entry.entry("planned", ("node", "start"))
    return Planned(
        planned.name("node") if planned.has("node") else None,
        clock.deadline(planned, "start"),
    )
