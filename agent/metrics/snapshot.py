"""What was last read, kept for scrapes: a scrape reads nothing from the hardware and holds up no beat.

Amounts are added up into counters, gauges stand only while they are fresh, and a series that its source no longer
reports vanishes, so that a stale value never passes for a live one.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import Metric

from agent.sampling.sampler import Stamped
from agent.source import Row, Value
from agent.wire.contract import Table
from agent.wire.tables import TABLES

MOST_SERIES = 1000  # of one family: a host has few GPUs and disks, and should have few runs

Labels = tuple[str, ...]


def label(value: Value) -> str:
    """Return a value as a label's. Bytes of a file name that are no text become question marks.

    One name that cannot be encoded would otherwise cost the whole scrape.
    """
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def family(name: str, words: str, kind: str, series: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """Return a family of exactly this name. Kind is gauge, counter or unknown.

    A counter's name ends in _total, which prometheus_client takes off and puts on again. Empty labels are left out:
    Prometheus makes no difference.
    """
    made = Metric(name.removesuffix("_total") if kind == "counter" else name, words, kind)
    for labels, value in series:
        made.add_sample(name, {of: named for of, named in labels.items() if named}, value)
    return made


# Which run holds which GPU, from the rows of `allocations` and `process_samples`, as they may leave this host.
# What is known of a run, in the order of its labels.
IDENTITY = ("scheduler", "member", "user", "account", "project", "name", "queue")


@dataclass(frozen=True, slots=True)
class LabelledHolder:
    """A run that holds a GPU; `identity` has what is known of IDENTITY, "" for what is not."""

    gpu_uuid: str
    run_id: str
    identity: Mapping[str, str]


class Holders:
    """Remembers open allocations, MOST_SERIES at most: they are told when they begin and when they end."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Row] = {}

    def take(self, allocations: Iterable[Row]) -> int:
        """Take what began and what ended, and return how many were too many to be remembered."""
        left_out = 0
        for row in allocations:
            key = (str(row.get("gpu_uuid") or ""), str(row.get("run_id")))
            if row.get("ended_at") is not None:
                self._open.pop(key, None)
            elif key[0] and row.get("started_at") is not None:
                if key in self._open or len(self._open) < MOST_SERIES:
                    self._open[key] = row
                else:
                    left_out += 1
        return left_out

    def holding(self, processes: Iterable[Row]) -> list[LabelledHolder]:
        """Return one holder for each GPU and run, with what its allocation and its processes tell of it."""
        owners = {
            (str(row["gpu_uuid"]), str(row["run_id"])): row.get("owner") for row in processes if row.get("gpu_uuid")
        }
        keys = [*self._open, *(key for key in owners if key not in self._open)]
        return [_holder(key, self._open.get(key, {}), owners.get(key)) for key in keys[:MOST_SERIES]]


def _holder(key: tuple[str, str], allocation: Row, owner: object) -> LabelledHolder:
    known = {name: str(allocation.get(name) or "") for name in IDENTITY}
    return LabelledHolder(*key, known | {"user": known["user"] or str(owner or "")})


_FRESH_PERIODS = 3  # of its source, after which a reading is no longer shown
_LASTING = ("xid_last",)  # facts that are told once and stay true

_Carried = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """What is shown of one table: the last row of each series, and what is carried from reading to reading.

    Carried are the sum of each amount, and facts that last. `until` is on the clock of the snapshot, in microseconds.
    """

    until: int = 0
    rows: Mapping[Labels, Row] = field(default_factory=dict)
    carried: Mapping[Labels, _Carried] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """What a scrape shows: fresh readings by table, GPUs as found by UUID, who holds them, and what was left out."""

    tables: Mapping[str, TableSnapshot]
    gpus: Mapping[str, Row]
    holders: Sequence[LabelledHolder]
    left_out: Mapping[str, int]

    def shown(self, table: str) -> TableSnapshot:
        """Return what is fresh of a table; nothing where its sources are silent."""
        return self.tables.get(table, TableSnapshot())


class Snapshot:
    """The latest reading of every table, added up; written by the beat, read by scrapes.

    Its size is that of one reading, and no more than MOST_SERIES rows of a table: what is not in the latest reading
    is forgotten, its totals too. `now` is in microseconds and best a clock that never jumps.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._shown: dict[tuple[str, str], TableSnapshot] = {}  # by table and source: two may tell of one table
        self._gpus: dict[str, Row] = {}
        self._holders = Holders()
        self._left_out: Counter[str] = Counter()

    def observe(self, stamped: Sequence[Stamped]) -> None:
        """Take what the sources said at one beat."""
        newest = max((said.ended_at for said in stamped), default=0)
        with self._lock:
            now = self._now()
            for said in stamped:  # what came late is fresh from when it came
                self._take(said, now - (newest - said.ended_at) + _FRESH_PERIODS * said.period)

    def view(self) -> View:
        """Return what is to be shown now; later beats leave it as it is."""
        with self._lock:
            now = self._now()
            fresh: dict[str, TableSnapshot] = {}
            for (table, _), shown in self._shown.items():
                if now <= shown.until:
                    fresh[table] = _together(fresh[table], shown) if table in fresh else shown
            processes = fresh["process_samples"].rows.values() if "process_samples" in fresh else ()
            return View(fresh, dict(self._gpus), self._holders.holding(processes), dict(self._left_out))

    def _take(self, said: Stamped, until: int) -> None:
        for name, rows in said.tables.items():
            if TABLES[name].family is not None:
                key = (name, said.source)
                self._shown[key] = self._next(TABLES[name], self._shown.get(key, TableSnapshot()), rows, until)
        self._take_gpus(said.tables)
        self._left_out["allocations"] += self._holders.take(said.tables.get("allocations", ()))

    def _next(self, table: Table, before: TableSnapshot, rows: Iterable[Row], until: int) -> TableSnapshot:
        found: dict[Labels, list[Row]] = {}
        for row in rows:
            found.setdefault(tuple(label(row.get(name)) for name in table.labels), []).append(row)
        kept = _kept(list(found), before)
        self._left_out[table.name] += len(found) - len(kept)
        return TableSnapshot(
            until,
            {labels: found[labels][-1] for labels in kept},
            {labels: _carried(table, before.carried.get(labels, {}), found[labels]) for labels in kept},
        )

    def _take_gpus(self, tables: Mapping[str, Sequence[Row]]) -> None:
        """Remember what GPUs are, as long as they are read."""
        told = [row for row in tables.get("inventory", ()) if row.get("gpu_uuid")]
        self._gpus.update((str(row["gpu_uuid"]), row) for row in told[:MOST_SERIES])
        if read := {str(row.get("gpu_uuid")) for row in tables.get("gpu_samples", ())}:
            self._gpus = {uuid: row for uuid, row in self._gpus.items() if uuid in read}


def _kept(found: list[Labels], before: TableSnapshot) -> list[Labels]:
    """Return the series that are shown: all, or of too many those that were shown before and then the first."""
    if len(found) <= MOST_SERIES:
        return found
    return sorted(found, key=lambda labels: labels not in before.rows)[:MOST_SERIES]


def _carried(table: Table, before: _Carried, rows: Iterable[Row]) -> _Carried:
    carried = dict(before)
    for row in rows:
        for column in table.columns:
            value = row.get(column.name)
            if column.kind == "amount" and isinstance(value, int | float):
                carried[column.name] = carried.get(column.name, 0) + value
            elif column.name in _LASTING and isinstance(value, int | float):
                carried[column.name] = value
    return carried


def _together(one: TableSnapshot, other: TableSnapshot) -> TableSnapshot:
    return TableSnapshot(max(one.until, other.until), {**one.rows, **other.rows}, {**one.carried, **other.carried})
