"""Columns that no exporter serves as they are, worked out of steps: names that a slot has and no table."""

from collections.abc import Callable

import pyarrow as pa

from collector.pipeline.decoding.range_checks import Array, pc

_Columns = dict[str, Array]
MOST_BYTES = float(2**60)


def finish(table: str, columns: _Columns, rows: int) -> _Columns:
    """Return the columns of a table with those that follow from several; the steps are gone but for a GPU's memory."""
    step = _FINISH.get(table)
    return columns if step is None else step(dict(columns), rows)


def memory_bytes(columns: _Columns) -> Array | None:
    """Return the device memory of each row, or None where no exporter says enough."""
    if "memory_bytes" in columns:
        return _bytes(columns["memory_bytes"])
    if "memory_free_bytes" not in columns or "memory_used_bytes" not in columns:
        return None
    held = pc.add(columns["memory_free_bytes"], pc.cast(columns["memory_used_bytes"], pa.float64()))
    reserved = columns.get("memory_reserved_bytes")
    return _bytes(held if reserved is None else pc.add(held, pc.fill_null(pc.cast(reserved, pa.float64()), 0.0)))


def _gpu(columns: _Columns, _: int) -> _Columns:
    both = columns.pop("nvlink_bytes", None)
    if both is not None:
        # Both ways together, which is all that the ledger reads of them: half of it stands for each way.
        half = _bytes(pc.divide(both, 2.0))
        for way in ("nvlink_receive_bytes", "nvlink_transmit_bytes"):
            columns[way] = pc.coalesce(columns[way], half) if way in columns else half
    return columns


def _host(columns: _Columns, rows: int) -> _Columns:
    idle, iowait = columns.pop("cpu_idle", None), columns.pop("cpu_iowait", None)
    total = columns.pop("memory_total", None)
    if iowait is not None:
        columns["cpu_iowait_ratio"] = iowait
    if idle is not None:
        waiting = pa.nulls(rows, pa.float64()) if iowait is None else iowait
        rest = pc.subtract(pc.subtract(1.0, idle), pc.fill_null(waiting, 0.0))
        columns["cpu_busy_ratio"] = pc.max_element_wise(rest, 0.0, skip_nulls=False)
    available = columns.get("memory_available_bytes")
    if total is not None and available is not None:
        used = pc.subtract(_bytes(total), available)
        columns["memory_used_bytes"] = pc.if_else(pc.greater_equal(used, 0), used, pa.scalar(None, pa.int64()))
    return columns


def _bytes(values: Array) -> Array:
    """Return whole bytes, null where nobody can believe them."""
    inside = pc.and_(pc.greater_equal(values, 0.0), pc.less(values, MOST_BYTES))
    return pc.cast(pc.round(pc.if_else(inside, values, pa.scalar(None, pa.float64()))), pa.int64())


_FINISH: dict[str, Callable[[_Columns, int], _Columns]] = {"gpu_samples": _gpu, "host_samples": _host}
