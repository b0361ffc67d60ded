"""Stores with a lake beside them, filled as sealing fills them, for the tests of the upkeep."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from collector.store.database import Store
from collector.store.lake import default_lake
from collector.store.schemas import make_tier_tables, samples_schema
from collector.store.session import Session

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
DAY = 1_790_000_000_000_000 // DAY_US * DAY_US  # the first microsecond of a day
SECOND = 1_000_000
GPUS = ("GPU-a", "GPU-b", "GPU-c")


@contextmanager
def site(folder: Path, *, lake: bool = True) -> Iterator[Store]:
    """Yield a store with the tables of the upkeep, a copy of one in which they were made."""
    if not (folder / _STORE).exists():
        for name, content in _made(lake).items():
            (folder / name).parent.mkdir(exist_ok=True, parents=True)
            (folder / name).write_bytes(content)
    with _opened(folder, lake) as store:
        yield store


_STORE = "store.duckdb"


def _opened(folder: Path, lake: bool) -> Store:
    return Store.open(folder / _STORE, lake=default_lake(folder / _STORE) if lake else None)


@cache
def _made(lake: bool) -> dict[Path, bytes]:
    """Return the files of such a store by their places; to make them in a lake takes as long as to open it."""
    with TemporaryDirectory() as folder:
        with _opened(Path(folder), lake) as store:
            make_tier_tables(store)
        return {path.relative_to(folder): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def rows(
    start: int, count: int, *, batch: int, step: int = 60 * SECOND, gpus: Sequence[str] = GPUS, node: str = "n1"
) -> pa.Table:
    """Return samples of some GPUs, one every step from `start` on; each tells its own number as its events."""
    told = [
        {
            "node": node,
            "gpu_uuid": gpu,
            "started_at": start + number * step,
            "ended_at": start + (number + 1) * step,
            "utilization_ratio": 0.5,
            "xid_events": 1,
            "batch": batch,
        }
        for number in range(count)
        for gpu in gpus
    ]
    return pa.Table.from_pylist(told)


def take(store: Store, samples: pa.Table, batch: int, received_at: int | None = None) -> None:
    """Put one batch's samples and its receipt where readers look, as a sealing does."""
    place = samples_schema(store)
    received = DAY if received_at is None else received_at
    with store.session() as session, session.transaction():
        session.insert(f"{place}.gpu_samples", samples)
        session.execute(
            f"INSERT INTO {place}.receipts VALUES (?, 'n1', 's', ?, 'h', ?, ?, 2, ?)",
            [batch, batch, received, received, samples.num_rows],
        )


def judge(store: Store, hours: Iterable[int], status: str = "closed") -> None:
    """Write hours into the ledger's list, with amounts of nothing, as an analysis does."""
    hours = list(hours)
    with store.session() as session:
        session.load(f"{store.hot}.amount_hours", ("hour", "booked_batch"), [(hour, 0) for hour in hours], replace=True)
        session.load(
            f"{store.hot}.ledger_hours",
            ("hour", "status", "input_digest", "rules_version"),
            [(hour, status, "x", "1") for hour in hours],
        )


def one(store: Store, sql: str) -> tuple[object, ...]:
    """Return the first row of a query."""
    with store.session() as session:
        return session.row(sql)


def everything(session: Session, table: str) -> list[dict[str, object]]:
    """Return all rows of a table in one order."""
    return session.arrow(f"SELECT * FROM {table} ORDER BY ALL").to_pylist()
