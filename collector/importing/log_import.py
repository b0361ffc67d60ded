"""Land a log of GPUs: its samples, what its GPUs are, and, since a log is somebody's work, the run that held them.

A reading holds for the time since the one before, as NVML means it. Joules are the trapezoid of the power where the log
counts none. A log that lands again, longer or shuffled, is the same run: it is named after its first row, and a run of
an earlier log that shares time with it on a GPU becomes part of it.
"""

import statistics
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from agent.wire.sku import sku
from agent.wire.tables import TABLES
from agent.wire.units import SECOND_US
from collector.errors import FileRefusedError, UndatedError
from collector.importing.files import file_hash
from collector.importing.importer import Imported
from collector.importing.log_names import Gpu, Log, LogHints
from collector.importing.logs import read_log
from collector.pipeline.batch_commit import chunked_import
from collector.pipeline.decoding.arrow_messages import arrow_schema
from collector.pipeline.decoding.validation import Clock, pc, plausible
from collector.store.database import Store
from collector.store.session import Session

_Row = dict[str, Any]
_GAP_STEPS, _GAP_US = 20, 60 * SECOND_US  # a log that says nothing for longer than both was not running
_AGAIN = 20  # of so many rows more than one that cannot be true is no bad reading but another unit
_FEW, _MOSTLY = 5, 0.8  # readings by which a counter is judged; of them those at which it stands still
_NO_HOST = "unknown-host"
_PREFIX, _MARK = "declared/", "/log-"  # of the runs that logs are taken for


def import_log(
    store: Store | None, path: Path, hints: LogHints, node: str | None = None, start: int | None = None
) -> Imported:
    """Land what a log says; without a store nothing is written and the rest is the same.

    `start` is when the first row was (microseconds UTC), for a log without dates.

    Raises:
        FileRefusedError: it cannot be read.
        UndatedError: it has no dates, and `start` is not said.
        StoreError: the store refused it; nothing of the file was landed.
    """
    log = read_log(path, hints)
    if not log.is_dated and start is None:
        times = [at for gpu in log.gpus.values() for at in gpu.readings]
        sentence = f"{path} ({log.kind}) has no dates: say when its first row was, --start 2026-11-16T08:00"
        raise UndatedError(sentence, max(times) - min(times))
    rows = _LogRows.of(log, node, start)
    now = time.time_ns() // 1000
    samples = _table("gpu_samples", rows.samples)
    good, broken = plausible(TABLES["gpu_samples"], samples.combine_chunks().to_batches()[0], Clock(now, now))
    left_out = samples.num_rows - good.num_rows
    if left_out * _AGAIN > samples.num_rows:
        raise FileRefusedError(
            f"{path}: {', '.join(f'{rule.column} is {rule.says}' for rule in broken)} in {left_out:,} of "
            f"{samples.num_rows:,} rows: name its columns with their units, --columns 'timestamp,power.draw [mW]'"
        )
    for rule in broken:
        log.assume(f"rows were left out whose {rule.column} is {rule.says}")
    result = Imported(path, f"{log.kind}, as gpu_samples", read=log.rows + log.skipped)
    result.rejected = left_out
    if log.skipped:
        log.assume(f"what it says on {log.skipped:,} of its lines is no reading: cut off, or of something else")
    result.first, result.last = pc.min(good.column("started_at")).as_py(), pc.max(good.column("ended_at")).as_py()
    result.landed = good.num_rows
    if store is None:
        result.assumed = tuple(log.assumed)
        return result
    digest = file_hash(path) if path.is_file() else f"{len(rows.samples)}-{result.first}-{result.last}"
    stream = f"import:{digest}:log:{rows.node or ''}:{start or ''}"
    with store.session() as session:
        allocations, earlier = _allocations(session, log, rows)
    with chunked_import(store, agent=f"import:{path.name}", stream=stream, body_hash=digest) as taking:
        result.repeated = taking is None
        if taking is not None:
            result.there = taking.add("gpu_samples", pa.Table.from_batches([good]))
            taking.add("inventory", _table("inventory", rows.inventory))
            taking.take_back("allocations", ("run_id", "gpu_uuid", "started_at"), earlier)
            taking.add("allocations", _table("allocations", allocations))
            result.landed = good.num_rows - result.there
    result.assumed = tuple(log.assumed)
    result.runs = tuple(dict.fromkeys(row["run_id"] for row in allocations))
    return result


def _table(name: str, rows: Sequence[_Row]) -> pa.Table:
    schema = arrow_schema(TABLES[name])
    return pa.Table.from_pylist([{field: row.get(field) for field in schema.names} for row in rows], schema=schema)


@dataclass(slots=True)
class _LogRows:
    """The rows of a log: samples and inventory, and who held which GPU when as (node, uuid, start, end, run).

    The run is "" for the one run that a log is taken for.
    """

    node: str | None
    samples: list[_Row] = field(default_factory=list)
    inventory: list[_Row] = field(default_factory=list)
    holds: list[tuple[str, str, int, int, str]] = field(default_factory=list)

    @classmethod
    def of(cls, log: Log, node: str | None, start: int | None) -> "_LogRows":
        """Make the rows of a log; `start` is when its first row was, where it has no dates."""
        rows = cls(node)
        first = min(at for gpu in log.gpus.values() for at in (*gpu.readings, *(one[0] for one in gpu.windows)))
        shift = 0 if log.is_dated or start is None else start - first
        for (host, key), gpu in sorted(log.gpus.items()):
            at_node = node or host or _NO_HOST
            if at_node == _NO_HOST:
                log.assume(f"its host is {_NO_HOST}, since it names none; --node says which")
            uuid = gpu.uuid or f"{at_node}/{key}"
            samples = list(_samples(gpu, log, shift))
            if not samples:
                continue
            own = {"node": at_node, "gpu_uuid": uuid}
            rows.samples += [{**own, **sample} for sample in samples]
            span = (samples[0]["started_at"], max(one["ended_at"] for one in samples))
            name = None if gpu.name is None else sku(gpu.name, gpu.memory_bytes)
            facts = {"gpu_index": gpu.index, "sku": name, "memory_bytes": gpu.memory_bytes}
            rows.inventory.append({**own, "started_at": span[0], "ended_at": span[1], **facts})
            spans = [(begin + shift, end + shift, run) for begin, end, _, run in gpu.windows if run] or [(*span, "")]
            rows.holds += [(at_node, uuid, *each) for each in spans]
        if not rows.samples:
            raise FileRefusedError(f"{log.kind} with one reading of a GPU says nothing of any time: two are needed")
        return rows


def _samples(gpu: Gpu, log: Log, shift: int) -> Iterator[_Row]:
    """Yield the samples of a GPU, an interval each between two readings, or a window each."""
    for begin, end, joules, _ in sorted(gpu.windows):
        watts = joules / (end - begin) * SECOND_US
        yield {
            "started_at": begin + shift,
            "ended_at": end + shift,
            "up": True,
            "energy_joules": joules,
            "power_watts": watts,
        }
    readings = _aligned(gpu)
    times = sorted(readings)
    if len(times) < 2:
        return
    usual = statistics.median(after - before for before, after in pairwise(times))
    longest = max(_GAP_STEPS * usual, _GAP_US)
    _judge_counters([readings[at] for at in times], usual, log)
    for before, after in pairwise(times):
        if after - before > longest:
            log.assume("nothing is known of the times at which it was not written")
            continue
        one, other = readings[before], readings[after]
        sample: _Row = {"started_at": before + shift, "ended_at": after + shift, "up": after not in gpu.lost}
        sample |= {name: _typed(name, value) for name, value in other.items()}
        drawn = _joules(one, other, (after - before) / SECOND_US)
        if drawn is not None and "energy_joules" not in other:
            sample["energy_joules"] = drawn
            if "energy_joules_total" not in other:
                log.assume("its joules are the trapezoid of its power, since it counts none")
        yield sample


def _judge_counters(readings: Sequence[dict[str, float]], usual: float, log: Log) -> None:
    """Read energy that only rises as a counter, and leave out a counter that was rounded until it stands still."""
    energies = [reading["energy_joules"] for reading in readings if "energy_joules" in reading]
    rises = len(energies) > _FEW and all(one <= other for one, other in pairwise(energies))
    if rises and energies[-1] > 2 * energies[0]:
        log.assume("its energy only rises, and is read as a counter")
        for reading in readings:
            if "energy_joules" in reading:
                reading["energy_joules_total"] = reading.pop("energy_joules")
    counters = [reading["energy_joules_total"] for reading in readings if "energy_joules_total" in reading]
    still = sum(one == other for one, other in pairwise(counters))
    if usual >= SECOND_US and len(counters) > _FEW and still > _MOSTLY * len(counters):
        log.assume("its energy counter stands still most of the time, as a rounded one does, and is not read")
        for reading in readings:
            reading.pop("energy_joules_total", None)


def _typed(name: str, value: float) -> float | int:
    return int(value) if TABLES["gpu_samples"].column(name).type == "int64" else value


def _joules(one: dict[str, float], other: dict[str, float], seconds: float) -> float | None:
    counters = one.get("energy_joules_total"), other.get("energy_joules_total")
    if counters[0] is not None and counters[1] is not None:
        return counters[1] - counters[0] if counters[1] >= counters[0] else None
    watts = one.get("power_watts"), other.get("power_watts")
    return None if watts[0] is None or watts[1] is None else (watts[0] + watts[1]) / 2 * seconds


def _aligned(gpu: Gpu) -> dict[int, dict[str, float]]:
    """Return readings with those of one moment together: loggers write a metric after another and round times."""
    columns: dict[str, int] = defaultdict(int)
    for reading in gpu.readings.values():
        for name in reading:
            columns[name] += 1
    densest = max(columns, key=lambda name: columns[name], default="")
    base = sorted(at for at, reading in gpu.readings.items() if densest in reading)
    if len(base) < 2 or len(base) == len(gpu.readings):
        return gpu.readings
    near = statistics.median(after - before for before, after in pairwise(base)) / 2
    aligned = {at: dict(gpu.readings[at]) for at in base}
    for at, reading in gpu.readings.items():
        if densest in reading:
            continue
        place = bisect_left(base, at)
        nearest = min(base[max(0, place - 1) : place + 1], key=lambda one: abs(one - at))
        own = aligned.setdefault(nearest if abs(nearest - at) < near else at, {})
        for name, value in reading.items():
            own.setdefault(name, value)
    return aligned


def _allocations(session: Session, log: Log, rows: _LogRows) -> tuple[list[_Row], list[tuple[object, ...]]]:
    """Return who held the GPUs, and which earlier word of that goes (run, GPU, start).

    That is one run, but where the store knows another holder; runs of logs that share time on a GPU become one.
    """
    known = session.rows(_KNOWN, [[uuid for _, uuid, *_ in rows.holds]])
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    earlier: list[tuple[object, ...]] = []
    held: list[_Row] = []
    for node, uuid, begin, end, run in rows.holds:
        own = f"{_PREFIX}{node}/{run}" if run else ""
        beside = [one for one in known if one[0] == uuid and one[1] < end and (one[2] is None or one[2] > begin)]
        others = sorted(
            {one[3] for one in beside if _MARK not in one[3] and one[3] not in (own, log.run.get("run_id"))}
        )
        if others:
            log.assume(f"{uuid} was held by {others[0]} meanwhile, as the store knows, and by no run of this log")
        elif run:
            held.append(_allocation(node, uuid, begin, end, {"run_id": own}))
        else:
            of_logs = [one for one in beside if _MARK in one[3]]
            earlier += [(run_id, gpu, started_at) for gpu, started_at, _, run_id in of_logs]
            spans[node, uuid] = min([begin, *(one[1] for one in of_logs)]), max([end, *(one[2] for one in of_logs)])
    if not spans:
        return held, []
    (node, _), (first, _) = min(spans.items(), key=lambda one: (one[1][0], one[0]))
    moment = datetime.fromtimestamp(first / SECOND_US, UTC)
    about = log.run or {"run_id": f"{_PREFIX}{node}{_MARK}{moment:%Y%m%dT%H%M%SZ}"}
    who = "" if "user" in log.run else "who ran it, and "
    log.assume(f"all of it is one run, {about['run_id']}; {who}what it cost, is not known")
    return [*held, *(_allocation(*place, *span, about) for place, span in spans.items())], earlier


_KNOWN = """
SELECT gpu_uuid, started_at, ended_at, run_id FROM allocations
WHERE gpu_uuid IN (SELECT unnest(?::VARCHAR[])) AND started_at IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY run_id, gpu_uuid, started_at ORDER BY batch DESC) = 1
"""


def _allocation(node: str, uuid: str, begin: int, end: int, about: dict[str, str]) -> _Row:
    span = {"node": node, "gpu_uuid": uuid, "started_at": begin, "ended_at": end}
    return {"scheduler": about["run_id"].split("/", 1)[0], **about, **span}
