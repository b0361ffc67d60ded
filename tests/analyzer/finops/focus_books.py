"""Ledgers for the export's tests: rows put straight into a store in memory, as the analyzer would book them."""

from collections.abc import Sequence

from collector.store.database import Store
from collector.store.session import Session

SECOND = 1_000_000
HOUR = 3_600 * SECOND
DAY = 24 * HOUR
NOVEMBER = 1_793_491_200 * SECOND  # 2026-11-01 00:00 UTC
MS_PER_HOUR = 3_600_000
MINUTE_MS = 60_000
LEDGER = (
    "hour", "gpu_uuid", "node", "sku", "purchase_option", "run_id", "attempt", "state", "cause", "shared",
    "milliseconds", "cost_micros", "rules_version",
)  # fmt: skip


class Books:
    """A store with a ledger that the test writes.

    What is booked goes into it when somebody next asks for the store or a session, a table at a time: each hour of a
    GPU would cost four statements.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or Store.open(None, memory_limit="300MB")
        self._hours: set[int] = set()
        self._ledger: list[Sequence[object]] = []  # both wait
        self._analysed: list[int] = []

    @property
    def store(self) -> Store:
        """The store, with all that was booked."""
        self._put()
        return self._store

    def session(self) -> Session:
        """Return a session on it."""
        return self.store.session()

    def _put(self) -> None:
        rows, hours = self._ledger, self._analysed
        self._ledger, self._analysed = [], []
        if not (rows or hours):
            return
        with self._store.session() as session:
            session.load("ledger", LEDGER, rows)
            columns = ("hour", "status", "input_digest", "rules_version")
            session.load("ledger_hours", columns, [(hour, "closed", "test", "test") for hour in hours])
        if hours:
            self.reached(max(self._hours) + HOUR)

    def gpu_hour(
        self,
        parts: Sequence[tuple[str | None, str, str | None, int]],
        hour: int = NOVEMBER,
        price: int | None = 2_600_000,
        gpu: str = "GPU-1",
        node: str = "n1",
        sku: str | None = "H100-80GB",
        option: str | None = "owned",
    ) -> None:
        """Book one GPU's hour: (run, state, cause, milliseconds) each; the price by largest remainder, as it is."""
        whole = sum(part[3] for part in parts)
        cost = None if price is None else (price * whole + MS_PER_HOUR // 2) // MS_PER_HOUR
        costs = [None] * len(parts) if cost is None else _divided([part[3] for part in parts], cost)
        rows = [
            (hour, gpu, node, sku, option, run, 0, state, cause, False, ms, share, "test")
            for (run, state, cause, ms), share in zip(parts, costs, strict=True)
        ]
        self._ledger += rows
        self.hour(hour)

    def hour(self, hour: int) -> None:
        """Say that an hour has been analysed."""
        if hour not in self._hours:
            self._hours.add(hour)
            self._analysed.append(hour)

    def reached(self, until_us: int) -> None:
        """Say up to when the last pass found anything to book."""
        with self.session() as session:
            session.execute("DELETE FROM analysed_until")
            session.load("analysed_until", ("until_us",), [[until_us]])

    def run(self, run_id: str, team: str | None = "team-a", name: str | None = "train", **more: str | None) -> None:
        """Say whose a run is, and what else is known of it."""
        row = {"run_id": run_id, "name": name, "team": team, "gpus": 1, "nodes": 1, "attempts": 1, **more}
        with self.session() as session:
            session.load("runs", list(row), [list(row.values())])

    def adjust(self, hour: int, recorded_at: int, state: str, cause: str, ms: int, cost: int | None) -> None:
        """Write an adjustment of an hour that had closed."""
        columns = (
            "recorded_at", "hour", "gpu_uuid", "node", "sku", "purchase_option", "state", "cause", "shared",
            "milliseconds", "cost_micros", "reason", "rules_version",
        )  # fmt: skip
        row = (
            recorded_at, hour, "GPU-1", "n1", "H100-80GB", "owned", state, cause, False, ms, cost, "late", "test",
        )  # fmt: skip
        with self.session() as session:
            session.load("adjustments", columns, [row])

    def total(self) -> int:
        """Return what the whole ledger cost, in millionths."""
        with self.session() as session:
            return int(session.row("SELECT coalesce(sum(cost_micros), 0) FROM ledger")[0])


def _divided(parts: Sequence[int], cost: int) -> list[int]:
    """Divide a cost by largest remainder."""
    whole = sum(parts)
    shares = [cost * part // whole for part in parts]
    order = sorted(range(len(parts)), key=lambda place: (-(cost * parts[place] % whole), place))
    for place in order[: cost - sum(shares)]:
        shares[place] += 1
    return shares
