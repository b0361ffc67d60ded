"""What is done to the rows of a labelled run, and must not make another cause of its loss (metamorphic relations).

Other names, another label, company that does nothing, or twice the same lose nothing, and all shares stay. A sensor
that is dropped, or rows of ten seconds for rows of one, lose something, and the verdict may only get weaker.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from agent.wire.tables import TABLES
from bench.truth.host_sensors import EVERY as HOST_SECONDS
from bench.truth.rows import Rows
from bench.truth.runs import SECOND_US, SimulatedRun

Column: TypeAlias = "pa.ChunkedArray[Any]"
Way: TypeAlias = Literal["first", "last", "mean", "sum", "min", "max"]

COARSE_SECONDS = 10
LITTLE_BUSY, LITTLE_WAITED = 0.5, 0.5  # of a drive's time, and reads under way: nothing waits for it
READERS = (0.2, 0.9)  # share of time in which some unrelated reader waits
NOT_WORK = {"up", "temperature_celsius", "sm_clock_hertz", "sm_clock_reference_hertz", "memory_reserved_bytes"}
NO_KERNEL = {"utilization_zero_ratio", "utilization_low_ratio"}
# How several rows of a GPU become one; what is null in all of them stays null.
_OF_KIND: Mapping[str, Way] = {"gauge": "mean", "amount": "sum"}
WAYS: Mapping[str, Way] = {
    column.name: _OF_KIND[column.kind] for column in TABLES["gpu_samples"].columns if column.kind in _OF_KIND
} | {"ended_at": "last", "up": "min", "power_watts_min": "min", "power_watts_max": "max"}
SOME = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)

SENSORS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "pressure io": dict.fromkeys(("host_samples", "run_samples"), ("pressure_io_some_ratio",)),
    "pressure cpu": dict.fromkeys(("host_samples", "run_samples"), ("pressure_cpu_some_ratio",)),
    "disk busy": {"disk_samples": ("busy_ratio",)},
    "read waits": {"disk_samples": ("read_wait_seconds",)},
    "workers waiting": {"process_samples": ("workers_waiting_ratio",)},
    "busiest worker": {"process_samples": ("workers_busiest_cpu_ratio",)},
    "cgroup cores": {"run_samples": ("cpu_seconds", "cores_allotted")},
    "PCIe": {"gpu_samples": ("pcie_receive_bytes", "pcie_transmit_bytes")},
    "NVLink": {"gpu_samples": ("nvlink_receive_bytes", "nvlink_transmit_bytes")},
    "SM activity": {
        "gpu_samples": ("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio")
    },
    "power": {"gpu_samples": ("power_watts", "power_watts_min", "power_watts_max", "energy_joules")},
    "memory utilization": {"gpu_samples": ("memory_utilization_ratio",)},
}


@dataclass(frozen=True, slots=True)
class Transformation:
    """One way to change rows: of a run that it does not concern there are none."""

    rows: Callable[[SimulatedRun, Rows], Rows | None]
    loses: bool = False  # information
    run_id: Callable[[str], str] = str  # what the run is called then


def _other_run(run_id: str) -> str:
    head, _, number = run_id.rpartition("/")
    return f"{head}/{number[::-1]}"


OTHER_NAMES: Mapping[str, Callable[[str], str]] = {  # in another order too
    "node": lambda node: f"h{node[::-1]}",
    "gpu_uuid": lambda gpu: f"GPU-{gpu[4:][::-1]}",
    "run_id": _other_run,
    "restarts_of": _other_run,
}
TWIN_NAMES: Mapping[str, Callable[[str], str]] = dict.fromkeys(("node", "gpu_uuid"), lambda name: f"{name}-twin")


def _other_names(_run: SimulatedRun, rows: Rows) -> Rows:
    return [(name, _named(table, OTHER_NAMES)) for name, table in rows]


def _other_workers(_run: SimulatedRun, rows: Rows) -> Rows | None:
    """Return other numbers of workers: it is what the run declares, and says nothing of how they are doing."""
    made, found = [], False
    for name, table in rows:
        changed = table
        if name == "process_samples" and (pc.max(table["workers"]).as_py() or 0) > 0:
            found = True
            changed = _put(table, "workers", pc.add(pc.multiply(table["workers"], 2), 1))
        made.append((name, changed))
    return made if found else None


def _idle_gpus(run: SimulatedRun, rows: Rows) -> Rows:
    return rows + [made for made in _neighbours(run, rows) if made[0] != "allocations"]


def _idle_run(run: SimulatedRun, rows: Rows) -> Rows:
    return rows + _neighbours(run, rows)


def _neighbours(run: SimulatedRun, rows: Rows) -> Rows:
    """Return one more GPU on each host, which does nothing, and a run that holds them. A guest's hosts are told of."""
    made: Rows = []
    for node in [] if run.is_guest else range(run.draw.nodes):
        gpu = run.gpu_uuid(node * run.draw.ranks_per_node)
        named = {"gpu_uuid": lambda name: f"{name}-beside", "run_id": lambda name: f"{name}9"}
        for name, table in rows:
            if name not in ("gpu_samples", "inventory", "ownership", "allocations"):
                continue
            own = _named(table.filter(pc.equal(table["gpu_uuid"], pa.scalar(gpu))), named)
            if name == "gpu_samples":
                own = _at_rest(own, run)
            elif name == "inventory":
                own = _put(own, "gpu_index", pa.array([run.draw.ranks_per_node] * len(own)))
            elif name == "allocations":
                own = _put(own, "rank", pa.array([node] * len(own)))
                own = _put(own, "requested_gpus", pa.array([run.draw.nodes] * len(own)))
            made.append((name, own))
    return [(name, table) for name, table in made if len(table)]


def _at_rest(table: pa.Table, run: SimulatedRun) -> pa.Table:
    watts = run.draw.machine.idle_watts
    power = dict.fromkeys(SENSORS["power"]["gpu_samples"], watts) | {"energy_joules": watts * run.cell.every}
    for column in TABLES["gpu_samples"].columns:
        if column.kind in ("gauge", "amount") and column.name in table.column_names and column.name not in NOT_WORK:
            value = power.get(column.name, float(column.name in NO_KERNEL))
            table = _put(table, column.name, pa.array(np.full(len(table), value)))
    return table


def _unrelated_readers(run: SimulatedRun, rows: Rows) -> Rows | None:
    """Return a host of which some task waits for storage most of the time, where the run itself reads a little."""
    if not _reads_a_little(rows):
        return None
    draw = np.random.default_rng(run.number)
    level, made = draw.uniform(*READERS), []
    for name, table in rows:
        changed = table
        if name in SENSORS["pressure io"]:
            theirs = (level + 0.03 * draw.standard_normal(len(table))).clip(0, 1)
            own = table["pressure_io_some_ratio"]
            changed = _put(table, "pressure_io_some_ratio", pc.max_element_wise(own, pa.array(theirs)))
        made.append((name, changed))
    return made


def _reads_a_little(rows: Rows) -> bool:
    drives = [table for name, table in rows if name == "disk_samples" and len(table)]
    busy = max(
        (pc.mean(table["busy_ratio"]).as_py() for table in drives if "busy_ratio" in table.column_names), default=0
    )
    waited = max((pc.mean(table["read_wait_seconds"]).as_py() / HOST_SECONDS for table in drives), default=0)
    read = sum(pc.sum(table["read_bytes"]).as_py() for table in drives)
    return read > 0 and busy <= LITTLE_BUSY and waited <= LITTLE_WAITED


def _twice(run: SimulatedRun, rows: Rows) -> Rows | None:
    """Return each host and its ranks once more, in the same rack. Somebody's session on two hosts is no session."""
    if run.draw.is_interactive:
        return None
    made = []
    for name, table in rows:
        twin = _named(table, TWIN_NAMES)
        if name == "allocations":
            table = _put(table, "requested_gpus", pc.multiply(table["requested_gpus"], 2))  # noqa: PLW2901
            twin = _put(twin, "requested_gpus", table["requested_gpus"])
            twin = _put(twin, "rank", pc.add(twin["rank"], run.cell.ranks))
        made += [(name, table), (name, twin)]
    return made


def _coarser(run: SimulatedRun, rows: Rows) -> Rows | None:
    if run.is_guest or run.cell.every >= COARSE_SECONDS:
        return None
    return [(name, _coarse(table) if name == "gpu_samples" and len(table) else table) for name, table in rows]


def _coarse(table: pa.Table) -> pa.Table:
    """Return rows of ten seconds of one GPU: means and sums of what abuts. All rows are equally long."""
    started, ended = (table[name].to_numpy() for name in ("started_at", "ended_at"))
    breaks = np.concatenate([[0], np.cumsum(started[1:] != ended[:-1])])
    tens = started // (COARSE_SECONDS * SECOND_US)
    changes = np.concatenate([[True], (np.diff(tens) != 0) | (np.diff(breaks) != 0)])
    plain = pa.table({name: _decoded(table[name]) for name in table.column_names})
    grouped = plain.append_column("group", pa.array(np.cumsum(changes))).group_by("group", use_threads=False)
    ways = {name: WAYS.get(name, "first") for name in table.column_names}
    found = grouped.aggregate([(name, way, SOME if way in ("mean", "sum") else None) for name, way in ways.items()])
    made = {name: found[f"{name}_{way}"] for name, way in ways.items()}
    return pa.table({name: _cast(values, table.schema.field(name).type) for name, values in made.items()})


def _without(columns: Mapping[str, tuple[str, ...]]) -> Callable[[SimulatedRun, Rows], Rows | None]:
    def rows_without(_run: SimulatedRun, rows: Rows) -> Rows | None:
        made, told = [], 0
        for name, table in rows:
            here = [column for column in columns.get(name, ()) if column in table.column_names]
            told += sum(len(table) - table[column].null_count for column in here)
            made.append((name, table.drop_columns(here)))
        return made if told else None

    return rows_without


def _named(table: pa.Table, names: Mapping[str, Callable[[str], str]]) -> pa.Table:
    for column in names.keys() & set(table.column_names):
        texts = table[column].to_pylist()
        other = {text: names[column](text) for text in set(texts) if text is not None}
        table = _put(table, column, pa.array([text and other[text] for text in texts], pa.string()))
    return table


def _put(table: pa.Table, name: str, values: "Column | pa.Array[Any]") -> pa.Table:
    """Return the table with other values in this column, of its own type."""
    at = table.schema.get_field_index(name)
    return table.set_column(at, name, _cast(values, table.schema.field(name).type))


def _cast(values: "Column | pa.Array[Any]", kind: "pa.DataType") -> "Column | pa.Array[Any]":
    if isinstance(kind, pa.DictionaryType):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        texts = pa.concat_arrays(chunks).dictionary_encode()
        return pa.DictionaryArray.from_arrays(texts.indices.cast(kind.index_type), texts.dictionary)
    return pc.cast(_decoded(values), kind, safe=False)


def _decoded(values: "Column | pa.Array[Any]") -> "Column | pa.Array[Any]":
    return pc.cast(values, values.type.value_type) if isinstance(values.type, pa.DictionaryType) else values


TRANSFORMATIONS: Mapping[str, Transformation] = {
    "other names": Transformation(_other_names, run_id=_other_run),
    "other workers": Transformation(_other_workers),
    "idle GPUs beside": Transformation(_idle_gpus),
    "idle run beside": Transformation(_idle_run),
    "unrelated readers": Transformation(_unrelated_readers),
    "twice the ranks": Transformation(_twice),
    "10 s for 1 s": Transformation(_coarser, loses=True),
    **{f"no {name}": Transformation(_without(columns), loses=True) for name, columns in SENSORS.items()},
}
