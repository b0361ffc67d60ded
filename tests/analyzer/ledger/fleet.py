"""Small fleets for the ledger's tests: rows of the contract put straight into a store in memory."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pyarrow

from agent.wire.tables import TABLES
from analyzer.analysis import analyze
from analyzer.ledger.booking import Analysis
from analyzer.settings.settings import Settings
from collector.store.database import Store
from collector.store.seal_mark import COLLECTORS

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MONDAY = 1_762_732_800 * SECOND  # 2025-11-10 00:00 UTC

# Whose batches it has, by the low bits of their numbers: not those of the collector of a server that a test starts.
_COLLECTOR = 1

Row = dict[str, object]


class Fleet:
    """A store, and a way to say what happened in it.

    What is said is put into a store of the fleet's own when somebody next asks for that store, a table at a time, or
    each word would cost two statements; into a store of others at once, or at the end of `together`.
    """

    def __init__(self, store: Store | None = None, batches: int = _COLLECTOR, threads: int | None = None) -> None:
        self._store = store or Store.open(None, memory_limit="500MB", threads=threads)
        self._may_wait = store is None
        self.names_end = ""
        self.batches = batches
        self._waiting: dict[str, list[Row]] = {}
        self._sizes: dict[int, int] = {}  # rows by batch

    @property
    def store(self) -> Store:
        """The store, with all that was said in it."""
        self._put()
        return self._store

    def add(self, table: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows as one batch."""
        self.batches += COLLECTORS
        batch: list[Row] = [dict(row, batch=self.batches) for row in rows]
        self._sizes[self.batches] = len(batch)
        self._waiting.setdefault(table, []).extend(batch)
        if not self._may_wait:
            self._put()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Put what is said meanwhile into the store at the end."""
        before, self._may_wait = self._may_wait, True
        yield
        self._may_wait = before
        self._put()

    def add_each(self, table: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Add each row as a batch of its own."""
        for row in rows:
            self.add(table, [row])

    def _put(self) -> None:
        """Put what waits into the store; nothing happens where nothing does."""
        waiting, sizes = self._waiting, self._sizes
        self._waiting, self._sizes = {}, {}
        if not sizes:
            return
        with self._store.session() as session, session.transaction():
            session.execute(
                "INSERT INTO receipts SELECT b, 'test', 'test', b, '', 0, 0, 1, size "
                "FROM (SELECT unnest($numbers::BIGINT[]) AS b, unnest($sizes::BIGINT[]) AS size)",
                {"numbers": str([*sizes]), "sizes": str([*sizes.values()])},  # each number of a list takes 20 us
            )
            for table, rows in waiting.items():
                present = {name for row in rows for name, value in row.items() if value is not None}
                columns = [name for name in (*TABLES[table].names, "batch") if name in present]
                session.insert(table, pyarrow.table({name: [row.get(name) for row in rows] for name in columns}))

    def own(self, node: str, gpus: Iterable[str], sku: str = "H100-80GB", **more: object) -> None:
        """Own GPUs from Monday on."""
        self.add(
            "ownership", [{"node": node, "gpu_uuid": gpu, "owned_from": MONDAY, "sku": sku, **more} for gpu in gpus]
        )

    def sample(self, node: str, gpu: str, start: int, end: int, every: int = MINUTE, **values: object) -> None:
        """Sample a GPU from start to end; by default it works at full tilt."""
        working: Row = {"up": True, "utilization_ratio": 0.99, "utilization_zero_ratio": 0.0, "sm_active_ratio": 0.9}
        row = working | {"node": node, "gpu_uuid": gpu, **values}
        self.add(
            "gpu_samples",
            [row | {"started_at": at, "ended_at": min(at + every, end)} for at in range(start, end, every)],
        )

    def write(self, node: str, start: int, end: int, written_bytes: int = 0) -> None:
        """Say what a host wrote to disk, a minute at a time: a checkpoint would show."""
        row: Row = {"node": node, "device": "nvme0n1", "mount_kind": "block", "written_bytes": written_bytes}
        self.add(
            "disk_samples", [row | {"started_at": at, "ended_at": at + MINUTE} for at in range(start, end, MINUTE)]
        )

    def hold(
        self, run: str, node: str, gpus: Iterable[str], start: int, end: int | None = None, **more: object
    ) -> None:
        """Let a run hold GPUs."""
        row: Row = {
            "run_id": run,
            "node": node,
            "started_at": start,
            "ended_at": end,
            "scheduler": "slurm",
            "name": run,
        }
        self.add("allocations", [row | {"gpu_uuid": gpu, **more} for gpu in gpus])

    def analyze(self, now: int = MONDAY + DAY, settings: Settings | None = None) -> Analysis:
        """Bring the ledger up to date."""
        return analyze(self.store, settings or Settings(), now_us=now)

    def states(self, run: str | None = None, table: str = "ledger") -> dict[tuple[str, str | None], int]:
        """Return the milliseconds by state and cause, of one run or of everything."""
        where, values = self._ours(run)
        with self.store.session() as session:
            rows = session.rows(
                f"SELECT state, cause, sum(milliseconds)::BIGINT FROM {table} WHERE {where} GROUP BY ALL", values
            )
        return {(state, cause): ms for state, cause, ms in rows}

    def seen(self, column: str, where: str = "true") -> list[object]:
        """Return the different values that a column of the ledger has where something holds."""
        ours, values = self._ours(None)
        with self.store.session() as session:
            rows = session.rows(f"SELECT DISTINCT {column} FROM ledger WHERE {ours} AND {where} ORDER BY 1", values)
        return [value for (value,) in rows]

    def _ours(self, run: str | None) -> tuple[str, list[object]]:
        """Return what is true of the ledger's rows of this fleet, and of one run of it where one is named."""
        return ("true", []) if run is None else ("run_id = ?", [run])

    def rows(self) -> list[tuple[object, ...]]:
        """Return the whole ledger, in order."""
        with self.store.session() as session:
            return session.rows("SELECT * FROM ledger ORDER BY ALL")

    def unbalanced(self) -> list[tuple[object, ...]]:
        """Return GPU-hours whose rows do not sum to what is owned; hours are whole but for the last known one."""
        with self.store.session() as session:
            return session.rows(
                """
                SELECT gpu_uuid, hour, sum(milliseconds) AS ms FROM ledger GROUP BY ALL
                HAVING ms <> least(3600000, ((SELECT max(ended_at) FROM gpu_samples) - hour) // 1000)
                    OR min(milliseconds) < 0
                """
            )


_NAMES = ("node", "gpu_uuid", "parent_uuid", "run_id", "alias_run_id", "name")


class Beside(Fleet):
    """A fleet in the store of another, whose hosts, GPUs, runs and services have names of their own there: `name`
    ends each.

    One pass judges many of them, and a pass over few rows takes as long as one over many.
    """

    def __init__(self, store_of: Fleet, name: str) -> None:
        super().__init__(store_of._store)
        self._of, self.names_end = store_of, name
        self._until = MONDAY

    @property
    def store(self) -> Store:
        """The store of all, with all that was said in it."""
        return self._of.store

    def add(self, table: str, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows as one batch, by these names."""
        named = [dict(row) for row in rows]
        for row in named:
            row.update({key: f"{row[key]}{self.names_end}" for key in _NAMES if row.get(key) is not None})
            self._until = max(self._until, cast("int", row.get("ended_at") or MONDAY))
        self._of.add(table, named)

    def _ours(self, run: str | None) -> tuple[str, list[object]]:
        """Of the hours until the fleet's last word: others of the store may go on for longer, and it is silent then."""
        if run is not None:
            return "run_id = ?", [f"{run}{self.names_end}"]
        return "ends_with(gpu_uuid, ?) AND hour < ?", [self.names_end, self._until]


def priced(path: Path, **prices: float) -> Settings:
    """Return settings with a price file: priced(path, H100_80GB=2.6)."""
    rows = [
        f'[[price]]\nsku = "{sku.replace("_", "-")}"\npurchase_option = "any"\nusd_per_gpu_hour = {price}\n'
        f'from = 2020-01-01\nas_of = 2025-01-01\nsource = "test"\n'
        for sku, price in prices.items()
    ]
    file = path / "prices.toml"
    file.write_text("\n".join(rows))
    return Settings(prices=file)
