"""Ledgers written by hand: hours of a few runs, over weeks, with what the runs said that they did."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from collector.store.database import Store
from tests.analyzer.ledger.amounts import book

HOUR = 3_600_000_000
WEEK = 168 * HOUR
MONDAY = 1_762_732_800_000_000  # 2025-11-10 00:00 UTC
RATE = 2_000_000  # millionths for a GPU-hour


@dataclass
class Written:
    """A store in memory with a ledger."""

    store: Store = field(default_factory=lambda: Store.open(None, memory_limit="500MB"))

    def know(self, start: int, end: int) -> None:
        """Say that the ledger has these hours."""
        rows = [[hour, "closed", "", "rules", "prices"] for hour in range(start, end, HOUR)]
        with self.store.session() as session:
            session.load("ledger_hours", ["hour", "status", "input_digest", "rules_version", "price_version"], rows)
            session.load("analysed_until", ["until_us"], [[end]])

    def run(self, run_id: str, name: str, team: str | None, **more: object) -> None:
        """Say what is known of a run."""
        row = {"run_id": run_id, "name": name, "team": team, "gpus": 1, "nodes": 1, "attempts": 1} | more
        with self.store.session() as session:
            session.load("runs", list(row), [list(row.values())])

    def book(self, run_id: str, hours: Iterable[int], gpus: Callable[[int], float], state: str = "productive") -> None:
        """Book hours of a run: so many GPUs each, at the one rate."""
        cause = {"productive": "compute", "held_idle": "abandoned"}[state]
        columns = ["hour", "gpu_uuid", "node", "sku", "run_id", "attempt", "state", "cause", "shared"]
        columns += ["milliseconds", "cost_micros", "rules_version", "price_version"]
        who = ("g", "n", "H100", run_id, 1, state, cause, False)
        rows = [
            [hour, *who, round(gpus(hour) * 3_600_000), round(gpus(hour) * RATE), "rules", "prices"] for hour in hours
        ]
        with self.store.session() as session:
            session.load("ledger", columns, rows)

    def say(self, table: str, run_id: str, hours: Iterable[int], **did: Callable[[int], int]) -> None:
        """Let a service or a run say what it did each hour."""
        columns = ["node", "started_at", "ended_at", "run_id", *did, "batch"]
        rows = [["n", hour, hour + HOUR, run_id, *(each(hour) for each in did.values()), 1] for hour in hours]
        with self.store.session() as session:
            session.load(table, columns, rows)
        book(self.store)
