"""Storage by the month, checkpoints by what they wrote, hosts by cores and memory. Pure and exact, hour by hour."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.wire.units import GIB, HOUR_US
from analyzer.prices.derived.owned import HOURS_PER_MONTH
from analyzer.prices.non_gpu_rows import Checkpoints, Host, Storage, row_of

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Written:
    """What checkpoints wrote in one UTC hour."""

    hour: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Hosted:
    """Hosts of one node group that were owned for an hour, with their cores and memory together (None: not told)."""

    node_group: str | None
    hour: int
    hosts: int
    cores: int | None
    memory_bytes: int | None


def storage_micros(row: Storage, start_us: int, end_us: int) -> int:
    """Return what a row's storage costs from one whole hour to another.

    What hours get telescopes from the row's beginning: windows that abut sum to the window over both, to the millionth.
    """
    start = max(start_us, row.starts_at)
    end = end_us if row.ends_at is None else min(end_us, row.ends_at)
    if end <= start:
        return 0
    return _upto(row, end) - _upto(row, start)


def _upto(row: Storage, at_us: int) -> int:
    hours = (at_us - row.starts_at) // HOUR_US
    return row.gib_millionths * row.micros_per_gib_month * hours // (HOURS_PER_MONTH * _MILLION)


def checkpoint_micros(written: Iterable[Written], rows: Sequence[Checkpoints]) -> int | None:
    """Return what writing checkpoints cost, each hour rounded down; None where an hour of it has no price."""
    total = 0
    for one in written:
        row = row_of(rows, None, one.hour)
        if row is None:
            return None
        total += one.bytes * row.micros_per_gib // GIB
    return total


def host_micros(hosted: Iterable[Hosted], rows: Sequence[Host]) -> int | None:
    """Return what cores and memory cost, each hour rounded down; None where a host's are not known.

    Hosts for which no row holds are in the price of their GPUs and cost nothing here.
    """
    total = 0
    for one in hosted:
        row = row_of(rows, one.node_group, one.hour)
        if row is None:
            continue
        if one.cores is None or one.memory_bytes is None:
            return None
        total += one.cores * row.micros_per_core_hour + one.memory_bytes * row.micros_per_gib_hour // GIB
    return total
