"""The rows that a run leaves in the tables of the contract, as Arrow tables; and a store filled with them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from agent.wire.tables import TABLES
from bench.truth.draw import GIB
from bench.truth.gpu_sensors import gpu_columns, habits
from bench.truth.host_sensors import EVERY, HostReadings, host_readings
from bench.truth.runs import MONDAY_US, SECOND_US, Mask, SimulatedRun
from bench.truth.tape import Floats
from collector.store.database import Store

Texts: TypeAlias = dict[str, str | None]
Rows: TypeAlias = list[tuple[str, pa.Table]]  # of one run, by the name of the table
Change: TypeAlias = Callable[[str, pa.Table], pa.Table]
HOUR_US = 3600 * SECOND_US
GROUP = 40  # runs put into the store at once
RESERVED_BYTES = 588 * 2**20
_TYPES: dict[str, pa.DataType] = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.string()}
_INTEGERS = {
    (table.name, column.name) for table in TABLES.values() for column in table.columns if column.type == "int64"
}


def fill(store: Store, runs: Iterable[SimulatedRun], change: Change | None = None) -> int:
    """Put all rows of these runs into the store and return how many samples of GPUs there are.

    `change` may change a table by its name before it is landed.
    """
    made = (rows_of(run) for run in runs)
    return land(store, made if change is None else ([(name, change(name, table)) for name, table in of] for of in made))


def land(store: Store, runs: Iterable[Rows]) -> int:
    """Put the rows of each run into the store, some runs at a time, and return how many samples of GPUs there are."""
    batch = samples = 0
    pending: dict[str, list[pa.Table]] = defaultdict(list)
    with store.session() as session:

        def insert() -> None:
            nonlocal batch
            for name, tables in pending.items():
                batch += 1
                whole = pa.concat_tables(tables, promote_options="default")
                whole = whole.append_column("batch", pa.array(np.full(len(whole), batch, dtype=np.int64)))
                session.execute(
                    "INSERT INTO receipts VALUES (?, 'truth', 'truth', ?, '', 0, 0, 2, ?)", [batch, batch, len(whole)]
                )
                session.insert(name, whole)
            pending.clear()

        for waiting, rows in enumerate(runs, 1):
            for name, table in rows:
                samples += len(table) if name == "gpu_samples" else 0
                pending[name].append(table)
            if waiting % GROUP == 0:
                insert()
        insert()
    return samples


def rows_of(run: SimulatedRun) -> Rows:
    """Return every row that the run leaves, by table."""
    made = [("gpu_samples", table) for table in ([] if run.is_guest else _gpu_tables(run))]
    for node in range(run.draw.nodes):
        made += _host_tables(run, node, host_readings(run.draw, run.line_of(node)))
    made += [(name, _of_dicts(name, rows)) for name, rows in _facts(run).items()]
    return made


def _gpu_tables(run: SimulatedRun) -> list[pa.Table]:
    habit, draw = habits(run.draw), run.draw
    made = []
    for group, line in enumerate(run.lines):
        ranks = [rank for rank in range(run.cell.ranks) if draw.group_of_rank[rank] == group]
        if not ranks:
            continue  # what a run beside this one does, of which the GPU tells nothing apart
        columns = gpu_columns(draw, line, habit, len(ranks))
        columns["memory_reserved_bytes"] = np.full_like(columns["memory_used_bytes"], RESERVED_BYTES)
        columns["sm_clock_reference_hertz"] = np.full_like(columns["sm_clock_hertz"], draw.machine.clock_hertz)
        columns["throttle_hardware_seconds"] = np.zeros_like(columns["sm_clock_hertz"])
        for at, rank in enumerate(ranks):
            node = run.node_of(rank)
            texts: Texts = {"node": run.nodes[node], "gpu_uuid": run.gpu_uuid(rank)}
            own = {name: values[at] for name, values in columns.items()}
            table = _table("gpu_samples", run.started_at, run.cell.every, own, texts, run.kept[node])
            made.append(table.append_column("up", pa.array(np.ones(len(table), dtype=np.bool_))))
    return made


def _host_tables(run: SimulatedRun, node: int, read: HostReadings) -> list[tuple[str, pa.Table]]:
    start = run.started_at + round(run.skews[node] * SECOND_US)
    kept = _heard(run, node)
    own: Texts = {"node": run.nodes[node]}
    made = [] if run.is_guest else _devices(start, read, own, kept)
    named = own | {"run_id": run.run_id}
    made.append(("run_samples", _table("run_samples", start, EVERY, read.run, named, kept)))
    for at, columns in enumerate(read.processes):
        gpu = run.gpu_uuid(node * run.draw.ranks_per_node + at)
        columns["memory_used_bytes"] = _memory(run, len(kept))
        lives = kept & (np.arange(len(kept)) * EVERY >= run.draw.process_from)
        table = _table("process_samples", start, EVERY, columns, named | {"gpu_uuid": gpu}, lives)
        pid = np.full(len(table), (5000 if run.is_guest else 4000) + at, dtype=np.int64)
        made.append(("process_samples", table.append_column("pid", pa.array(pid))))
    if read.service is not None and node == 0:
        served = _table("service_samples", start, EVERY, read.service, named | {"engine": "vllm"}, kept)
        made.append(("service_samples", served))
    return made


def _devices(start: int, read: HostReadings, own: Texts, kept: Mask) -> list[tuple[str, pa.Table]]:
    """Return what the host tells beside its runs."""
    made = [("host_samples", _table("host_samples", start, EVERY, read.host, own, kept))]
    for name, kind, found in (("disk_samples", "mount_kind", read.disks), ("network_samples", "link_kind", read.links)):
        for (device, word), columns in found.items():
            made.append((name, _table(name, start, EVERY, columns, own | {"device": device, kind: word}, kept)))
    return made


def _memory(run: SimulatedRun, count: int) -> Floats:
    times = np.arange(count + 1, dtype=np.float64) * EVERY
    return np.rint(run.lines[0].means(("memory",), times)["memory"])


def _heard(run: SimulatedRun, node: int) -> Mask:
    starts = np.arange(0, run.seconds, EVERY)
    kept = np.ones(len(starts), dtype=np.bool_)
    for start, end in run.silences[node]:
        kept &= (starts + EVERY <= start) | (starts >= end)
    return kept


def _table(name: str, start: int, every: int, columns: dict[str, Floats], texts: Texts, kept: Mask) -> pa.Table:
    begun = start + np.flatnonzero(kept) * (every * SECOND_US)
    made: dict[str, pa.Array[Any]] = {"started_at": pa.array(begun), "ended_at": pa.array(begun + every * SECOND_US)}
    zeros = np.zeros(len(begun), dtype=np.int8)
    for column, text in texts.items():
        made[column] = pa.DictionaryArray.from_arrays(zeros, pa.array([text], pa.string()))
    for column, values in columns.items():
        taken = values[kept]
        if (name, column) in _INTEGERS:
            made[column] = pa.array(np.nan_to_num(taken).astype(np.int64), mask=np.isnan(taken))
        else:
            made[column] = pa.array(taken.astype(np.float64), mask=np.isnan(taken))
    return pa.table(made)


def _facts(run: SimulatedRun) -> dict[str, list[dict[str, object]]]:
    """Return what the scheduler, the fleet file and the hosts say once."""
    draw, machine = run.draw, run.draw.machine
    until = -(-run.ended_at // HOUR_US) * HOUR_US
    since = run.started_at // HOUR_US * HOUR_US
    racks = [_rack(run, node) for node in range(draw.nodes)]
    inventory: list[dict[str, object]] = [
        {
            "node": node,
            "started_at": since,
            "ended_at": since + SECOND_US,
            "cpu_cores": draw.cores,
            "host_memory_bytes": 2048 * GIB,
            "local_nvme_bytes": 4 * 10**12,
            **rack,
        }
        for node, rack in zip(run.nodes, racks, strict=True)
    ]
    allocations, ownership = [], []
    for rank in range(run.cell.ranks):
        where = {"node": run.nodes[run.node_of(rank)], "gpu_uuid": run.gpu_uuid(rank)}
        inventory.append(where | racks[run.node_of(rank)] | _gpu_facts(run, rank, since))
        allocations += [where | one for one in _allocations(run, rank)]
        ownership.append(
            where | {"owned_from": since, "owned_until": until, "sku": machine.sku, "source": "fleet file"}
        )
    if run.is_guest:
        return {"allocations": allocations}
    return {"inventory": inventory, "allocations": allocations, "ownership": ownership}


def _rack(run: SimulatedRun, node: int) -> dict[str, object]:
    rack = f"r{run.place}" if run.draw.racks == 1 else f"r{run.place}-{node % run.draw.racks}"
    return {"rack": rack, "block": "b1", "zone": "z1", "region": "x1", "node_group": run.draw.machine.sku}


def _gpu_facts(run: SimulatedRun, rank: int, since: int) -> dict[str, object]:
    machine = run.draw.machine
    return {
        "started_at": since,
        "ended_at": since + SECOND_US,
        "gpu_index": rank % run.draw.ranks_per_node,
        "sku": machine.sku,
        "memory_bytes": machine.memory_bytes,
        "power_limit_watts": machine.limit_watts,
        "sm_clock_max_hertz": machine.clock_hertz,
        "pcie_generation": machine.pcie_generation,
        "pcie_generation_max": machine.pcie_generation,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "nvlink_peers": 7 if run.cell.ranks > 1 else 0,
    }


def _allocations(run: SimulatedRun, rank: int) -> list[dict[str, object]]:
    """Return one holding an attempt: each begins where the last one ended."""
    ends = run.draw.attempts or [(float(run.seconds), run.draw.exit_status)]
    at, found = run.started_at, []
    for attempt, (seconds, status) in enumerate(ends):
        until = run.started_at + round(seconds) * SECOND_US
        times = {"submitted_at": at - 60 * SECOND_US, "started_at": at, "ended_at": until}
        found.append(_allocation(run, rank) | times | {"attempt": attempt, "exit_status": status})
        at = until
    return found


def _allocation(run: SimulatedRun, rank: int) -> dict[str, object]:
    draw = run.draw
    word = "jupyter" if draw.is_interactive else "serve" if draw.is_service else "job"
    queue = "interactive" if draw.is_interactive else "serving" if draw.is_service else "batch"
    return {
        "run_id": run.run_id,
        "requested_gpus": run.cell.ranks,
        "rank": rank,
        "time_limit_seconds": 86_400.0,
        "scheduler": draw.scheduler,
        "name": f"{word}-{run.number}",
        "queue": queue,
        **({"restarts_of": draw.restarts_of} if draw.restarts_of else {}),
    }


def _of_dicts(name: str, rows: Sequence[dict[str, object]]) -> pa.Table:
    types = {column.name: _TYPES[column.type] for column in TABLES[name].columns if column.type in _TYPES}
    present = dict.fromkeys(column for row in rows for column in row)
    return pa.table({column: pa.array([row.get(column) for row in rows], types[column]) for column in present})


def end_of_day() -> int:
    """Return when all runs are over and their hours long past, for the analyzer's clock."""
    return MONDAY_US + 14 * 24 * HOUR_US
