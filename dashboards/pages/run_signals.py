"""What a run's GPUs, disks and workers did over a span: one line a signal with the spread of its ranks, and the ranks.

Roll-ups chosen for the width of the screen come from the store's tiers; only what the eye can tell apart is sent.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from agent.wire.units import PERMILLE
from analyzer.charts.lanes import Lane, Ranks
from collector.lake.tiers.series import Series, series
from collector.lake.tiers.sources import TableExtent
from collector.lake.tiers.subjects import Subject, gpus_of_run
from collector.tier_tables import tiered

if TYPE_CHECKING:
    from collector.store.session import Session

T = TypeVar("T")
_GPUS_READ = 256  # of a larger run the first of them, in the order of their hosts
RANKS_SHOWN = 64  # of more GPUs a row is a host
_REMEMBERED, _REMEMBERED_SECONDS = 64, 120.0
_DIGITS = 4
_EVER = 2**62


@dataclass(frozen=True, slots=True)
class Signal:
    """One lane: where it is read from. The first of its columns that anybody told is shown, under its own title."""

    key: str
    table: str
    columns: tuple[tuple[str, str], ...]  # column, title
    unit: str  # "ratio", "W" or "B/s"


SIGNALS = (
    Signal(
        "sm", "gpu_samples", (("sm_active_ratio", "SM activity"), ("utilization_ratio", "GPU busy (NVML)")), "ratio"
    ),
    Signal("tensor", "gpu_samples", (("tensor_active_ratio", "tensor cores"),), "ratio"),
    Signal("power", "gpu_samples", (("power_watts", "power"),), "W"),
    Signal("hbm", "gpu_samples", (("dram_active_ratio", "HBM"),), "ratio"),
    Signal("pcie", "gpu_samples", (("pcie_receive_bytes", "PCIe in"),), "B/s"),
    Signal("disk", "disk_samples", (("read_bytes", "disk reads"),), "B/s"),
    Signal("workers", "process_samples", (("workers_busiest_cpu_ratio", "busiest worker"),), "ratio"),
)
BY_KEY = {signal.key: signal for signal in SIGNALS}


@dataclass(frozen=True, slots=True)
class RunGpus:
    """The GPUs of a run in the order of their hosts, when it held each, and what people call them."""

    gpus: Subject
    spans: dict[str, list[tuple[int, int]]]
    names: dict[str, str]
    nodes: dict[str, str]
    left_out: int

    @classmethod
    def of(cls, session: "Session", run_id: str) -> "RunGpus":
        """Ask the store."""
        all_gpus = gpus_of_run(session, run_id)
        rows = session.rows(
            "SELECT gpu_uuid, node, started_at, coalesce(ended_at, ?) FROM allocations "
            "WHERE run_id = ? AND started_at IS NOT NULL AND gpu_uuid IS NOT NULL",
            [_EVER, run_id],
        )
        spans: dict[str, list[tuple[int, int]]] = {}
        nodes: dict[str, str] = {}
        for gpu, node, start, end in rows:
            spans.setdefault(gpu, []).append((start, end))
            nodes[gpu] = node
        indices = dict(
            session.rows(
                "SELECT gpu_uuid, arg_max(gpu_index, started_at) FROM inventory WHERE gpu_index IS NOT NULL "
                "AND gpu_uuid IN (SELECT unnest(?)) GROUP BY gpu_uuid",
                [list(all_gpus.values)],
            )
        )
        order = sorted(all_gpus.values, key=lambda gpu: (nodes.get(gpu, ""), indices.get(gpu, 0), gpu))
        names = {gpu: f"{nodes.get(gpu, '')} GPU {indices.get(gpu, gpu)}" for gpu in order}
        shown = Subject("gpu_samples", "gpu_uuid", tuple(order[:_GPUS_READ]), all_gpus.nodes)
        return cls(shown, spans, names, nodes, max(0, len(order) - _GPUS_READ))


class Remembered:
    """What changes rarely and is asked at every zoom: what the store has of a table, which GPUs a run held.

    It is of one state of the ledger: what has expired since is not there to be read.
    """

    def __init__(self) -> None:
        self._state: Hashable = None
        self._tiers: _Fresh[TableExtent] = _Fresh()
        self._held: _Fresh[RunGpus] = _Fresh()

    def of(self, state: Hashable) -> "Remembered":
        """Return what is remembered of a state of the ledger; of another one all is forgotten."""
        if state != self._state:
            self._tiers, self._held = _Fresh(), _Fresh()
            self._state = state
        return self

    def tiers(self, session: "Session", table: str) -> TableExtent:
        """Return what the store has of a table."""
        return self._tiers.get(table, lambda: TableExtent.of(session, tiered(table)))

    def held(self, session: "Session", run_id: str) -> RunGpus:
        """Return the GPUs of a run."""
        return self._held.get(run_id, lambda: RunGpus.of(session, run_id))


class _Fresh(Generic[T]):
    """At most REMEMBERED answers, each for REMEMBERED_SECONDS."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], T]) -> T:
        with self._lock:
            known = self._known.get(key)
        if known is not None and time.monotonic() - known[0] < _REMEMBERED_SECONDS:
            return known[1]
        found = make()
        with self._lock:
            self._known[key] = (time.monotonic(), found)
            self._known.move_to_end(key)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found


def read_signals(
    session: "Session", known: Remembered, run_id: str, span: tuple[int, int], points: int, ranked: str
) -> tuple[list[Lane], Ranks | None]:
    """Return the lanes that anybody told in the span, and the ranks of one signal of the GPUs."""
    lanes, ranks, held = [], None, known.held(session, run_id)
    told = _told(session, known, run_id, held, span, points)
    for signal in SIGNALS:
        for column, title in signal.columns:
            each = [masked(one, held) for one in told if one.column == column]
            lane = _lane(signal, title, each)
            if lane is not None:
                lanes.append(lane)
                if signal.key == ranked and signal.table == "gpu_samples":
                    ranks = ranks_of(lane, each, held)
                break
    return lanes, ranks


def _told(
    session: "Session", known: Remembered, run_id: str, held: RunGpus, span: tuple[int, int], points: int
) -> list[Series]:
    """Return every series of the span: one query a table."""
    nodes = held.gpus.nodes
    subjects = {
        "gpu_samples": held.gpus,
        "disk_samples": Subject("disk_samples", "node", nodes),
        "process_samples": Subject("process_samples", "run_id", (run_id,), nodes),
    }
    found: list[Series] = []
    for table, subject in subjects.items():
        columns = [column for signal in SIGNALS if signal.table == table for column, _ in signal.columns]
        found += series(session, subject, columns, *span, points, known.tiers(session, table))
    return found


def masked(one: Series, held: RunGpus) -> Series:
    """Leave out what a GPU did while the run did not hold it: that is somebody else's."""
    spans = held.spans.get(one.subject)
    end = one.start + len(one.mean) * one.step_us
    if spans is None or any(start <= one.start and until >= end for start, until in spans):
        return one
    at = range(one.start, end, one.step_us)
    mask = pa.array([any(start < point + one.step_us and until > point for start, until in spans) for point in at])
    none = pa.scalar(None, pa.float64())
    mean, least, most = (pc.if_else(mask, each, none) for each in (one.mean, one.least, one.most))
    return Series(one.subject, one.column, one.start, one.step_us, mean, least, most)


def _lane(signal: Signal, title: str, each: list[Series]) -> Lane | None:
    if not each or all(one.mean.null_count == len(one.mean) for one in each):
        return None
    count = len(each[0].mean)
    points = pa.array(list(range(count)) * len(each))
    table = pa.table({"point": points, "mean": pa.concat_arrays([one.mean for one in each])})
    spread = table.group_by("point").aggregate([("mean", "mean"), ("mean", "min"), ("mean", "max")]).sort_by("point")
    mean, least, most = (_rounded(spread.column(f"mean_{how}").to_pylist()) for how in ("mean", "min", "max"))
    return Lane(signal.key, title, signal.unit, each[0].start, each[0].step_us, mean, least, most)


def _rounded(values: list[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.{_DIGITS}g}") for value in values]


def ranks_of(lane: Lane, each: list[Series], held: RunGpus) -> Ranks:
    """Return a row a GPU; of a large run a row a host."""
    if len(each) <= RANKS_SHOWN:
        rows = {held.names[one.subject]: [one] for one in each}
    else:
        rows = {}
        for one in each:
            rows.setdefault(held.nodes[one.subject], []).append(one)
    highest = max((value for value in lane.most if value is not None), default=1.0)
    top = 1.0 if lane.unit == "ratio" else highest or 1.0
    shown = list(rows.items())[:RANKS_SHOWN]
    values = [_row(of, top) for _, of in shown]
    left_out = held.left_out + sum(len(of) for _, of in list(rows.items())[RANKS_SHOWN:])
    names = [name for name, _ in shown]
    return Ranks(lane.key, lane.title, lane.unit, top, lane.start, lane.step, names, values, left_out)


def _row(of: list[Series], top: float) -> list[int | None]:
    columns = [one.mean.to_pylist() for one in of]
    found: list[int | None] = []
    for values in zip(*columns, strict=True):
        told = [value for value in values if value is not None]
        found.append(round(PERMILLE * min(1.0, sum(told) / len(told) / top)) if told else None)
    return found
