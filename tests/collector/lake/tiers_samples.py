"""Samples for the tests of the tiers: rows of gpu_samples as dictionaries, and stores that hold them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from hypothesis import strategies as st

from agent.wire.units import HOUR_US
from collector.lake.tiers import Span, planned, roll_hours, roll_minutes
from collector.store.database import Store
from collector.store.schemas import make_tier_tables
from collector.store.session import Session
from collector.tier_tables import tiered

HOUR = 1_790_000_000 // 3600 * HOUR_US  # the first microsecond of an hour
SECOND = 1_000_000

Row = dict[str, object]


def sample(start: int, seconds: float, gpu: str = "GPU-a", **values: object) -> Row:
    """Return one row; `start` counts seconds from HOUR."""
    begins = HOUR + round(start * SECOND)
    ends = begins + round(seconds * SECOND)
    return {"node": "n1", "gpu_uuid": gpu, "started_at": begins, "ended_at": ends, "batch": 1, **values}


@contextmanager
def store_with(rows: Iterable[Row], table: str = "gpu_samples") -> Iterator[Session]:
    """Yield a session on a store in memory that has these rows, and the tiers' tables."""
    with Store.open(None) as store, store.session() as session:
        make_tier_tables(store)
        add(session, rows, table)
        yield session


def add(session: Session, rows: Iterable[Row], table: str = "gpu_samples") -> None:
    """Append rows that need not name the same columns."""
    by_columns: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        by_columns.setdefault(tuple(sorted(row)), []).append(row)
    for alike in by_columns.values():
        session.insert(table, pa.Table.from_pylist(alike))


def anew(session: Session, rows: Iterable[Row]) -> None:
    """Put these rows into gpu_samples in the place of all that it and its tiers have, for the next example of many."""
    for table in ("gpu_samples", "gpu_minutes", "gpu_hours"):
        session.execute(f"DELETE FROM {table}")
    add(session, rows)


def roll(session: Session, hours: Span, name: str = "gpu_samples") -> int:
    """Roll up one table, as the job does; return how many minutes' rows there are."""
    for portion in planned(session, tiered(name), hours):
        roll_minutes(session, portion)
    return roll_hours(session, tiered(name), hours)


def rolled(session: Session, tier: str, *, hours: int = 1) -> list[Row]:
    """Roll up the hours from HOUR on, and return a tier's rows in order, without what nobody told."""
    with session.transaction():
        roll(session, Span(HOUR, HOUR + hours * HOUR_US), f"{tier.split('_')[0]}_samples")
    return tier_rows(session, tier)


def tier_rows(session: Session, tier: str) -> list[Row]:
    """Return a tier's rows in order, without what nobody told."""
    found = session.arrow(f"SELECT * FROM {tier} ORDER BY ALL").to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def _maybe(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


# Every kind of column, in the ranges that hardware has; a thousandth of an hour is enough to meet every edge.
ROWS = st.builds(
    lambda gpu, start, length, batch, values: (
        {
            "node": "n1",
            "gpu_uuid": gpu,
            "started_at": HOUR + start,
            "ended_at": HOUR + start + length,
            "batch": batch,
        }
        | values
    ),
    st.sampled_from(["GPU-a", "GPU-b"]),
    st.integers(-90 * SECOND, 3_650 * SECOND),
    st.integers(1, 200 * SECOND),
    st.integers(1, 3),
    st.fixed_dictionaries(
        {
            "up": _maybe(st.booleans()),
            "utilization_ratio": _maybe(st.integers(0, 1000).map(lambda permille: permille / 1000)),
            "sm_active_ratio": _maybe(st.floats(0, 1)),
            "memory_used_bytes": _maybe(st.integers(0, 192 * 10**9)),
            "power_watts": _maybe(st.floats(0, 2_000)),
            "power_watts_max": _maybe(st.floats(0, 2_000)),
            "pcie_receive_bytes": _maybe(st.integers(0, 2**50)),
            "xid_events": _maybe(st.integers(0, 9)),
            "throttle_power_seconds": _maybe(st.floats(0, 200)),
            "energy_joules": _maybe(st.floats(0, 10**6)),
            "energy_joules_total": _maybe(st.floats(0, 10**12)),
            "pcie_generation": _maybe(st.integers(1, 6)),
            "row_remap_failure": _maybe(st.booleans()),
            "xid_numbers": _maybe(st.sampled_from(["79", "48,63,43", "43"])),
            "recovery_action": _maybe(st.sampled_from(["none", "gpu_reset"])),
        }
    ),
)
