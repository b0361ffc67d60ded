"""Read a task file: the tasks, the nodes and the network of a plan, in YAML, each key known and said once.

    start: 2026-11-23T08:00          # optional; else now. Also: "Monday 08:00", "in 2 h"
    finish_by: Friday 18:00          # optional; --finish-by goes before it. "in 20 h" counts from the start
    network:                         # optional, key by key; these are the defaults
      local: 10 GB/s                 # within one node
      rack: 1 GB/s                   # directly, within a rack
      cross_rack: 250 MB/s           # directly, across racks
      storage: 20 GB in 30 min       # written to network storage and read from there
      path: direct                   # between nodes: direct, or storage
    queue: true                      # optional: the runs that wait for GPUs, by the ledger, are tasks too
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
`count: 500` is an array: so many equal tasks, prep[1] to prep[500]; what comes after it waits for all of them. A node
is `away: [{from: Tuesday 09:00, until: Tuesday 17:00}]`. docs/planning.md has gangs, elastic tasks and licenses.
`after` as a list takes each task's `output`; as a table it says the bytes of each edge. A data set that lies on a node
is a task of `duration: 0 s` that is tied to it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any, Final, get_args
from zoneinfo import ZoneInfo

import yaml

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.amounts import (
    amount,
    moment_us,
    must_be,
    of_kinds,
    parse_moment,
    price_micros,
    size_bytes,
    span_seconds,
    transfer_rate,
)
from analyzer.capacity.planner.problem import (
    Amount,
    Duration,
    Input,
    Network,
    Node,
    Path,
    Planned,
    Problem,
    ProblemError,
    Task,
    TaskFileError,
    Within,
)
from analyzer.settings.bounded import yaml_said
from analyzer.settings.toml_entry import AND, key_hint
from analyzer.text.words import plain

_LETTERS_MOST: Final = 4 * 2**20
_TASKS_MOST = _NODES_MOST = 10_000
_NAME_LETTERS_MOST, _COUNT_MOST = 200, 10**9
_MISTAKES_TOLD = 20
_SPANS_MOST = 1000
_DEEPEST = 6
_QUANTILES = ("p10", "p50", "p90")


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
    licences: tuple[tuple[str, int], ...] = ()
    has_queue: bool = False  # the runs that wait are tasks too

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
        tasks = tuple(of_kinds(task, kinds) for task in self.tasks)
        return Problem(tasks, nodes, self.network, self.deadline_seconds, self.starts_at, self.licences)


@dataclass(frozen=True, slots=True)
class _Clock:
    """Where seconds count from, and whose days are meant."""

    starts_at: int
    timezone: str

    def until(self, value: object) -> int:
        """Return a moment in whole seconds from the start, rounded down."""
        after = moment_us(value, self.starts_at, ZoneInfo(self.timezone)) - self.starts_at
        if after < 0:
            raise ValueError("is before the start; give a later time, or an earlier start")
        return after // SECOND_US

    def spans(self, value: object) -> tuple[tuple[int, int], ...]:
        """Return spans of seconds from the start, each from a moment until another; what has gone by is left out."""
        found = []
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, Mapping) or set(each) != {"from", "until"}:
                raise must_be("a list of {from: Tuesday 09:00, until: Tuesday 17:00}", each)
            begin = _of("from", self.earliest, each["from"])
            end = _of("until", self.earliest, self._after(begin, each["until"]))
            if end < begin:
                raise ValueError(f"of {plain(str(each['from']))} ends before it begins; give a later until")
            found += [(begin, end)] if end > begin else []
        if len(found) > _SPANS_MOST:
            raise ValueError(f"has {len(found):,} spans; give no more than {_SPANS_MOST:,}")
        return tuple(sorted(found))

    def _after(self, begin: int, value: object) -> object:
        """Return a moment after another: after Friday 18:00 comes Monday 08:00; in 6 h is so from the start."""
        since = self.starts_at + begin * SECOND_US * (not str(value).strip().lower().startswith("in "))
        try:
            after = moment_us(value, since, ZoneInfo(self.timezone)) - self.starts_at
        except ValueError as error:
            raise ValueError(f"of until {error}") from error
        return f"in {max(0, -(-after // SECOND_US))} s"

    def earliest(self, value: object) -> int:
        """Return a moment in whole seconds from the start, rounded up; 0 where it has gone by."""
        after = moment_us(value, self.starts_at, ZoneInfo(self.timezone)) - self.starts_at
        return max(0, -(-after // SECOND_US))


def _name(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _NAME_LETTERS_MOST or not value.isprintable():
        letters = f"a name of 1 to {_NAME_LETTERS_MOST} printable characters"
        quotes = "" if isinstance(value, str) else "; write a number, a date, yes or no in quotes"
        raise ValueError(f"{must_be(letters, value)}{quotes}")
    return value


def _names(value: object) -> tuple[str, ...]:
    return tuple(map(_name, value if isinstance(value, list) else [value]))


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _COUNT_MOST:
        raise must_be("a whole number, 0 or more", value)
    return value


def _array_size(value: object) -> int:
    if not 0 < (size := _count(value)) <= _TASKS_MOST:
        raise must_be(f"1 to {_TASKS_MOST:,}", value)
    return size


def _word_of(words: Sequence[str]) -> "_Read":
    """Return what reads one of these words."""

    def read(value: object) -> str:
        if value not in words or not isinstance(value, str):
            raise must_be(" or ".join(words), value)
        return value

    return read


def _gpu(value: object) -> dict[str, object]:
    """Return how many GPUs a task needs: a whole number, a part of one, or of an elastic task its durations by them."""
    if isinstance(value, Mapping) and value:
        sizes = {_whole(key): _of(str(key), _durations, each) for key, each in value.items()}
        return {"gpus": min(sizes), "sizes": tuple(sorted(sizes.items())), "duration": None}
    if value in ("none", "forbidden"):
        return {"gpus": 0, "avoids_gpu_nodes": value == "forbidden"}
    try:
        gpus = amount(value)
    except ValueError as error:
        raise must_be("a whole number, a part of one GPU as in 0.5, none, or forbidden", value) from error
    if gpus > 1 and not isinstance(gpus, int):
        raise must_be("a whole number, or a part of one GPU: share more by several tasks", value)
    return {"gpus": gpus}


def _whole(key: object) -> int:
    gpus = amount(key)
    if not isinstance(gpus, int) or not gpus:
        raise must_be("numbers of GPUs, each with how long it takes, as in {8: 24 h, 16: 13 h}", key)
    return gpus


def _crossing(value: object) -> tuple[int, int]:
    """Return by how much a task takes longer across racks, and across blocks, in thousandths of its duration."""
    if not isinstance(value, Mapping) or not value or set(value) - {"racks", "blocks"}:
        raise must_be("how much longer it takes, as in {racks: 1.15, blocks: 1.3}", value)
    said = {key: int(_of(str(key), amount, each) * 1000) for key, each in value.items()}
    racks = said.get("racks", 1000)
    return racks, said.get("blocks", racks)


def _speeds(value: object) -> tuple[tuple[str, Amount], ...]:
    """Return how fast kinds of GPU are beside each other."""
    if not isinstance(value, Mapping) or not value:
        raise must_be("kinds of GPU with their speeds, as in {H100: 1, A100: 0.4}", value)
    found = tuple((_name(kind), _of(str(kind), amount, each)) for kind, each in value.items())
    if any(not speed for _, speed in found):
        raise ValueError("must be over 0 of each kind")
    return found


def _licences(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, Mapping):
        raise must_be("names with how many of each, as in {matlab: 2}", value)
    return tuple((_name(name), _of(str(name), _count, each)) for name, each in value.items())


def _ssd(value: object) -> dict[str, object]:
    return {"needs_ssd": value} if isinstance(value, bool) else {"needs_ssd": True, "ssd_bytes": size_bytes(value)}


def _durations(value: object) -> dict[str, object]:
    """Return how long a task takes anywhere, or by kind of GPU, and the name of the runs that say it."""
    if not isinstance(value, Mapping) or value.keys() & set(_QUANTILES):
        return {"duration": _duration(value)}
    kinds = tuple((_name(kind), _of(kind, _duration, each)) for kind, each in value.items() if kind != "history")
    return {
        "duration": None,
        "durations": kinds,
        **({"history": _name(value["history"])} if "history" in value else {}),
    }


def _duration(value: object) -> Duration:
    if not isinstance(value, Mapping):
        return Duration.of(span_seconds(value))
    if unknown := [key for key in value if key not in _QUANTILES]:
        raise ValueError(f"has an {_unknown(unknown[0], _QUANTILES)}")
    if missing := [key for key in _QUANTILES if key not in value]:
        raise ValueError(f"is not whole: {missing[0]} is missing")
    try:
        return Duration(*(_of(key, span_seconds, value[key]) for key in _QUANTILES))
    except ProblemError as error:
        raise ValueError(f"is wrong: {error}") from error


def _of(key: str, read: "_Read", value: object) -> Any:  # noqa: ANN401 - whatever is read
    """Return a value of a table within a value; what is wrong with it is told with its key."""
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"of {plain(key)} {error}") from error


def _as_it_is(value: object) -> object:
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise must_be("true or false", value)
    return value


def _after(value: object) -> dict[str, int] | tuple[str, ...]:
    """Return what a task waits for: of a list names alone, of a table the bytes of each edge."""
    return (
        {_name(task): _of(task, size_bytes, size) for task, size in value.items()}
        if isinstance(value, Mapping)
        else _names(value)
    )


# Of each key the field that it fills, or None where its reader says several, and what reads its value.
_Read = Callable[[Any], Any]
_Columns = Mapping[str, tuple[str | None, _Read]]
_NETWORK: _Columns = {
    **{medium: (medium, transfer_rate) for medium in ("local", "rack", "cross_rack", "storage")},
    "path": ("path", _word_of(get_args(Path))),
}


def _node_columns(clock: _Clock) -> _Columns:
    return {
        "rack": ("rack", _name), "group": ("group", _name), "cpus": ("cpus", amount),
        "memory": ("memory_bytes", size_bytes), "gpus": ("gpus", _count), "sku": ("sku", _name),
        "hbm": ("hbm_bytes", size_bytes), "ssd": ("ssd_bytes", size_bytes),
        "price_per_hour": ("price_micros_per_hour", price_micros),
        "available_from": ("available_from_seconds", clock.earliest), "block": ("block", _name),
        "away": ("away", clock.spans),
    }  # fmt: skip


def _task_columns(clock: _Clock) -> _Columns:
    return {
        "cpus": ("cpus", amount), "memory": ("memory_bytes", size_bytes), "gpu": (None, _gpu),
        "hbm": ("hbm_bytes", size_bytes), "ssd": (None, _ssd), "duration": (None, _durations),
        "output": ("output", size_bytes), "after": ("inputs", _after),
        "not_before": ("earliest_start_seconds", clock.earliest), "finish_by": ("deadline_seconds", clock.until),
        "node": ("node", _name), "group": ("group", _name), "planned": ("planned", _as_it_is),
        "count": ("count", _array_size), "hosts": ("hosts", _array_size),
        "within": ("within", _word_of(get_args(Within))),
        "crossing": ("crossing_permille", _crossing), "speed": ("speeds", _speeds),
        **dict.fromkeys(("licenses", "licences"), ("licences", _licences)),
    }  # fmt: skip


_MISSING = {
    "gpu": "; set how many, none (it needs none), or forbidden (it must stay off GPU nodes)",
    "duration": "; give it, as in 3 h, {H100: 10 h, A100: 25 h}, or {history: NAME}",
}


def read_tasks(
    text: str, now: int, timezone: str = "UTC", where: str = "the task file", start: str | None = None
) -> TaskFile:
    """Return what a task file says; `now` in microseconds UTC is when it starts where neither it nor `start` says.

    Raises:
        TaskFileError: it is too long, no YAML, or says what no task file can; all that is wrong is told at once.
    """
    if len(text) > _LETTERS_MOST:
        raise TaskFileError(f"{where} has {len(text):,} characters; split what has over {_LETTERS_MOST:,}")
    top, starts_at = _parsed(where, text), now
    if start is not None:
        starts_at = parse_moment("--start", start, now, timezone)
    elif isinstance(top, Mapping) and "start" in top:
        starts_at = parse_moment(f"{where}: start", top["start"], now, timezone)
    return _Reading(where, _Clock(starts_at, timezone)).file(top)


def _parsed(where: str, text: str) -> object:
    try:
        return yaml_said(text, _DEEPEST)
    except (ValueError, yaml.YAMLError) as error:
        raise TaskFileError(f"{where} cannot be read as YAML: {' '.join(str(error).split())[:300]}") from error
    except RecursionError as error:
        raise TaskFileError(f"{where} is nested too deeply to be read") from error


@dataclass
class _Reading:
    """One file as it is read, with what is wrong in it: each mistake with its place, its key and its value."""

    where: str
    clock: _Clock
    mistakes: list[str] = field(default_factory=list)

    def file(self, top: object) -> TaskFile:
        """Return the file. Raises TaskFileError with all mistakes."""
        columns: _Columns = {
            "start": ("start", _as_it_is), "finish_by": ("finish_by", self.clock.until),
            **{key: (key, _as_it_is) for key in ("network", "nodes", "tasks")},
            **dict.fromkeys(("licenses", "licences"), ("licences", _licences)), "speed": ("speeds", _speeds),
            "queue": ("has_queue", _flag),
        }  # fmt: skip
        with_queue = isinstance(top, Mapping) and top.get("queue") is True
        found = self.fields(self.where, top, columns, ("nodes",) if with_queue else ("nodes", "tasks"))
        network = self.fields(f"{self.where}, network", found.get("network", {}), _NETWORK)
        nodes, groups = self.nodes(found.get("nodes", {}))
        tasks = {
            name: self.task(f"{self.where}, task {name}", values)
            for name, values in self.named("tasks", found.get("tasks", {}), _TASKS_MOST).items()
        }
        if self.mistakes:
            more = len(self.mistakes) - _MISTAKES_TOLD
            told = self.mistakes[:_MISTAKES_TOLD] + ([f"and {more:,} more"] if more > 0 else [])
            raise TaskFileError(AND.join(told))
        return TaskFile(
            tasks=tuple(_expanded({name: {"speeds": found.get("speeds", ())} | each for name, each in tasks.items()})),
            nodes=None if nodes is None else tuple(Node(name, **values) for name, values in nodes.items()),
            network=Network(**network),
            starts_at=self.clock.starts_at,
            deadline_seconds=found.get("finish_by"),
            licences=found.get("licences", ()),
            inventory_groups=groups,
            has_queue=found.get("has_queue", False),
        )

    def nodes(self, values: object) -> tuple[dict[str, dict[str, Any]] | None, tuple[str, ...]]:
        """Return the fields of the nodes, or None and the groups of the inventory where they are to be looked up."""
        if values == "inventory":
            return None, ()
        if isinstance(values, Mapping) and [*values] == ["inventory"] and not isinstance(values["inventory"], Mapping):
            groups = self.fields(f"{self.where}: nodes", values, {"inventory": ("groups", _names)})
            return None, groups.get("groups", ())
        columns = _node_columns(self.clock)
        return {
            name: self.fields(f"{self.where}, node {name}", each, columns, ("cpus", "memory"))
            for name, each in self.named("nodes", values, _NODES_MOST).items()
        }, ()

    def task(self, where: str, values: object) -> dict[str, Any]:
        """Return the fields of a task, and `output`."""
        is_elastic = isinstance(values, Mapping) and isinstance(values.get("gpu"), Mapping)
        required = ("cpus", "memory", "gpu", *(() if is_elastic else ("duration",)))
        found = self.fields(where, values, _task_columns(self.clock), required)
        if is_elastic and isinstance(values, Mapping) and "duration" in values:
            self.mistakes.append(f"{where}: gpu says how long it takes with each number of GPUs; take duration out")
        if found.get("durations") and not found.get("gpus", 1):
            self.mistakes.append(f"{where}: a duration by kind of GPU needs gpu: how many; else give one duration")
        if "planned" in found:
            columns: _Columns = {"node": ("node", _name), "start": ("start_seconds", self.clock.until)}
            found["planned"] = Planned(**self.fields(f"{where}, planned", found["planned"], columns))
        return found

    def named(self, key: str, values: object, most: int) -> dict[str, object]:
        """Return the tables of a key by their names, in the file's order."""
        if not isinstance(values, Mapping):
            self.mistakes.append(f"{self.where}: {key} must be keys and values")
            return {}
        if len(values) > most:
            self.mistakes.append(f"{self.where} has {len(values):,} {key}; plan no more than {most:,} at once")
            return {}
        found = {}
        for name, each in values.items():
            try:
                found[_name(name)] = each
            except ValueError as error:
                self.mistakes.append(f"{self.where}: {key}: {plain(str(name))[:_NAME_LETTERS_MOST]!r} {error}")
        return found

    def fields(self, where: str, values: object, columns: _Columns, required: Collection[str] = ()) -> dict[str, Any]:
        """Return what a table says, by field; what is wrong with it is noted."""
        if not isinstance(values, Mapping):
            self.mistakes.append(f"{where} must be keys and values: {', '.join(columns)}")
            return {}
        self.mistakes += [f"{where}: {_unknown(key, columns)}" for key in values if key not in columns]
        found: dict[str, Any] = {}
        for key, (name, read) in columns.items():
            if key not in values and key not in required:
                continue
            if values.get(key) is None:
                self.mistakes.append(f"{where}: {key} is missing{_MISSING.get(key, '')}")
                continue
            try:
                value = read(values[key])
                found |= value if name is None else {name: value}
            except ValueError as error:
                self.mistakes.append(f"{where}: {key} {error}")
        return found


def _expanded(tasks: Mapping[str, dict[str, Any]]) -> Iterator[Task]:
    """Yield the tasks of the file, and of an array each of its own; what waits for an array waits for all of it.

    Raises:
        TaskFileError: there are too many.
    """
    names = {
        name: [f"{name}[{number}]" for number in range(1, values["count"] + 1)] if "count" in values else [name]
        for name, values in tasks.items()
    }
    if (count := sum(map(len, names.values()))) > _TASKS_MOST:
        raise TaskFileError(f"the arrays come to {count:,} tasks; plan no more than {_TASKS_MOST:,} at once")
    for array, values in tasks.items():
        after = values.get("inputs", ())
        sizes = after if isinstance(after, dict) else {name: tasks.get(name, {}).get("output", 0) for name in after}
        inputs = tuple(Input(each, size) for name, size in sizes.items() for each in names.get(name, [name]))
        fields = {key: value for key, value in values.items() if key not in ("count", "output")} | {"inputs": inputs}
        for name in names[array]:
            task = Task(name, **fields | {"sizes": ()}, array=array if "count" in values else None)
            yield replace(task, sizes=tuple(_sized(task, *size) for size in fields.get("sizes", ())))


def _sized(task: Task, gpus: int, duration: dict[str, Any]) -> Task:
    """Return an elastic task with so many GPUs, and so much more of everything than with the fewest."""
    more = Fraction(gpus) / Fraction(task.gpus)
    cpus = amount(str(Decimal(ceil(Fraction(task.cpus) * more * 1000)) / 1000))
    memory, ssd = ceil(task.memory_bytes * more), ceil(task.ssd_bytes * more)
    return replace(task, gpus=gpus, cpus=cpus, memory_bytes=memory, ssd_bytes=ssd, **duration)


def _unknown(key: object, known: Collection[str]) -> str:
    said = str(key)[:_NAME_LETTERS_MOST]
    return f"unknown key {plain(said)!r}; {key_hint(said, known)}"
