"""What the store has been told of a scheduler's allocations, so that asking again every minute writes only changes.

An allocation's key is that of the analyzer: run, attempt, GPU (or host and member) and start; the later row with the
same key is its new word. Nothing is changed here until what was told is safely in the store.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.tables import ALLOCATIONS
from agent.wire.units import SECOND_US
from collector.schedulers.poll import Row, Value, moment_of

if TYPE_CHECKING:
    from collector.store.session import Session

KEPT_US = 2 * 86_400 * SECOND_US  # how long an allocation that has ended is remembered; the scheduler may tell it again
_WAITING_RETOLD_US = (
    600 * SECOND_US
)  # a job that waits changes its reason and its rank with every pass of the scheduler
_DRIFTS = ("priority",)  # changes with time alone, and is no news
_OF_WAITING = ("pending_reason", "requested_gpus", "labels")  # news, but not at every poll

# Run, attempt, GPU (or host and member, where no GPU is known), start (None while waiting).
AllocationKey = tuple[str, int, str | None, int | None]


@dataclass(frozen=True, slots=True)
class KnownAllocation:
    """The last word on one allocation, and when it was told, microseconds UTC."""

    row: Row
    told_at: int


class AllocationBook:
    """Knows the last word on every allocation that is open or ended lately."""

    def __init__(self, told: Iterable[Row] = ()) -> None:
        self._told: dict[AllocationKey, KnownAllocation] = {}
        self._runs: dict[str, dict[AllocationKey, None]] = {}
        for row in told:
            self._keep(row, 0)

    @classmethod
    def read(cls, session: "Session", prefix: str, now: int, *, without_gpu: bool = False) -> "AllocationBook":
        """Return what the store knows of the runs whose ids begin with this.

        `without_gpu` leaves out rows that name a GPU, where the scheduler itself never does and its hosts do.
        """
        rows = session.rows(
            f"""
            SELECT {", ".join(ALLOCATIONS.names)} FROM (
                SELECT * FROM allocations WHERE starts_with(run_id, $prefix) AND scheduler = split_part($prefix, '/', 1)
                QUALIFY row_number() OVER (
                    PARTITION BY run_id, coalesce(attempt, 0), coalesce(gpu_uuid, node),
                        CASE WHEN gpu_uuid IS NULL THEN member END, started_at ORDER BY batch DESC
                ) = 1)
            WHERE (ended_at IS NULL OR ended_at > $since) AND NOT ($without_gpu AND gpu_uuid IS NOT NULL)
            """,
            {"prefix": prefix, "since": now - KEPT_US, "without_gpu": without_gpu},
        )
        return cls(dict(zip(ALLOCATIONS.names, row, strict=True)) for row in rows)

    def news(self, rows: Iterable[Row], now: int) -> list[Row]:
        """Return those rows that say something new, with what was known before where they say nothing."""
        found: dict[AllocationKey, Row] = {}
        for row in rows:
            key = key_of(row)
            before = self._told.get(key)
            merged = row if before is None else _merged(before.row, row)
            if before is None or _is_news(before, merged, now):
                found[key] = merged
        return list(found.values())

    def keep(self, rows: Iterable[Row], now: int) -> None:
        """Note that these rows are in the store, and forget what has long ended."""
        for row in rows:
            self._keep(row, now)
        old = [key for key, told in self._told.items() if _ended(told.row, now - KEPT_US)]
        for key in old:
            del self._told[key]
            self._runs[key[0]].pop(key)
            if not self._runs[key[0]]:
                del self._runs[key[0]]

    def of(self, run_id: str) -> Iterator[Row]:
        """Yield the last word on each allocation of a run."""
        return (self._told[key].row for key in self._runs.get(run_id, ()))

    def open(self) -> Iterator[Row]:
        """Yield every allocation that has no end yet, waiting ones too."""
        return (told.row for told in self._told.values() if told.row.get("ended_at") is None)

    def __len__(self) -> int:
        return len(self._told)

    def _keep(self, row: Row, now: int) -> None:
        key = key_of(row)
        self._told[key] = KnownAllocation(row, now)
        self._runs.setdefault(key[0], {})[key] = None


def key_of(row: Mapping[str, Value]) -> AllocationKey:
    """Return what makes an allocation one and the same."""
    where = row.get("gpu_uuid") or " ".join(str(row[part]) for part in ("node", "member") if row.get(part))
    return str(row["run_id"]), moment_of(row, "attempt") or 0, str(where) or None, moment_of(row, "started_at")


def withdrawn(row: Row, started_at: int) -> Row:
    """Return the word that takes an allocation back: it has no length, and no part of the GPU."""
    return row | {"ended_at": started_at, "exit_status": None, "gpu_fraction": 0.0}


def is_withdrawn(row: Row) -> bool:
    """Whether an allocation was taken back."""
    return row.get("gpu_fraction") == 0.0


def _merged(before: Row, row: Row) -> Row:
    """Return the new word, and of the old one what the new does not say: accounting knows no dependency and no rank."""
    return row if is_withdrawn(before) else before | {name: value for name, value in row.items() if value is not None}


def _is_news(before: KnownAllocation, row: Row, now: int) -> bool:
    changed = {name for name, value in row.items() if before.row.get(name) != value} - set(_DRIFTS)
    if row.get("started_at") is None and row.get("ended_at") is None and now - before.told_at < _WAITING_RETOLD_US:
        changed -= set(_OF_WAITING)
    return bool(changed)


def _ended(row: Row, before: int) -> bool:
    ended = moment_of(row, "ended_at")
    return ended is not None and ended < before
