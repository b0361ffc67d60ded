"""What dcgm-exporter says of a GPU, in our base units: our columns, and what follows from them."""

from collections.abc import Mapping

from agent.source import Row, Value
from agent.wire.units import SECOND_US

_RATES = ("pcie_transmit_bytes", "pcie_receive_bytes", "nvlink_transmit_bytes", "nvlink_receive_bytes")
# Counters of the interval that dcgm-exporter adds up.
_SUMS = ("pcie_replay_events", "throttle_power_seconds", "throttle_thermal_seconds", "throttle_sync_boost_seconds")

Values = Mapping[str, float]


def values(row: Row, carried: Mapping[str, float], gpu: Row) -> Values:
    """Return what is known of one GPU by the names of the table; what is not known is left out.

    `carried` has the sums of the amounts and the newest XID, `gpu` the GPU as found.
    """
    said: dict[str, Value] = {name: value for name, value in row.items() if name not in _SUMS}
    said |= {name: carried.get(name) for name in _SUMS}
    said |= _memory(row, gpu) | _rates(row)
    said["xid_last"] = carried.get("xid_last", 0 if row.get("xid_events") is not None else None)
    return {name: float(value) for name, value in said.items() if isinstance(value, int | float)}


def _memory(row: Row, gpu: Row) -> dict[str, Value]:
    total, used, reserved = (gpu.get("memory_bytes"), row.get("memory_used_bytes"), row.get("memory_reserved_bytes"))
    if not (isinstance(total, int) and isinstance(used, int) and row.get("up")):
        return {}
    usable = total - (reserved if isinstance(reserved, int) else 0)
    free = max(0, usable - used)
    return {
        "memory_bytes": total,
        "memory_free_bytes": free,
        "memory_used_ratio": min(1.0, used / usable) if usable > 0 else None,
    }


def _rates(row: Row) -> dict[str, Value]:
    """Return bytes a second over the row's interval, and the NVLink's both ways together."""
    started, ended = row.get("started_at"), row.get("ended_at")
    if not (isinstance(started, int) and isinstance(ended, int) and ended > started):
        return {}
    seconds = (ended - started) / SECOND_US
    rates: dict[str, Value] = {}
    for name in _RATES:
        moved = row.get(name)
        if isinstance(moved, int | float):
            rates[f"{name}_per_second"] = moved / seconds
    ways = [rates.get("nvlink_transmit_bytes_per_second"), rates.get("nvlink_receive_bytes_per_second")]
    known = [way for way in ways if isinstance(way, float)]
    if len(known) == len(ways):
        rates["nvlink_bytes_per_second"] = sum(known)
    return rates
