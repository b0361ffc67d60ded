"""The jobs, with how often each is due. A store without a lake has no files to compact and no catalogue."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US
from collector.lake.upkeep.catalogue import expire, remove_orphans, shrink
from collector.lake.upkeep.checking import check_files
from collector.lake.upkeep.compaction import compact, merge_recent
from collector.lake.upkeep.hot_file import forget_receipts
from collector.lake.upkeep.outcome import Outcome
from collector.lake.upkeep.retention import Dropped, Keeping, drop
from collector.lake.upkeep.rolling import roll_up

if TYPE_CHECKING:
    from collector.config import CollectorConfig
    from collector.store.database import Store

_HOUR_SECONDS = 3600.0
_DAY_SECONDS = 24 * _HOUR_SECONDS
# Those whose turn may leave new files in the lake, if it did anything: what they count as done are rows and files.
WRITE_FILES = frozenset({"roll_up", "retention", "merge", "compaction"})


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `run` gets its deadline (time.monotonic) and the time (microseconds UTC)."""

    name: str
    every_seconds: float
    about: str
    run: Callable[[float, int], Outcome]


def jobs(
    store: "Store", config: "CollectorConfig", tell: Callable[[Dropped], None], give_way: Callable[[], None]
) -> tuple[Job, ...]:
    """Return the jobs of a store, in the order in which they are best done where several are due.

    Those of many transactions call `give_way` before each.
    """
    keeping = Keeping(config.raw_days, config.minute_days, config.hour_days, config.kept_tables, config.keep_bytes)
    receipts_us = config.receipt_days * DAY_US
    every = (
        Job(
            "roll_up",
            _HOUR_SECONDS,
            "samples into minutes and hours",
            lambda deadline, now_us: roll_up(store, deadline, give_way, now_us),
        ),
        Job(
            "retention",
            _HOUR_SECONDS,
            "days that are over their age, or over keep_bytes, are dropped",
            lambda _, now: drop(store, keeping, now, tell),
        ),
        Job(
            "receipts",
            _HOUR_SECONDS,
            "receipts that no spool can repeat are forgotten, and the hot file's log folded in",
            lambda _, now: forget_receipts(store, now - receipts_us),
        ),
    )
    of_lake = (
        Job(
            "merge",
            _HOUR_SECONDS,
            "the small files of each hour of today become one",
            lambda deadline, now: merge_recent(store, deadline, now, give_way),
        ),
        Job(
            "compaction",
            _DAY_SECONDS,
            "the files of each day become one, in the order of hosts and GPUs",
            lambda deadline, now: compact(store, deadline, now, give_way),
        ),
        Job(
            "expiry",
            _HOUR_SECONDS,
            "old snapshots and the files that only they had are removed",
            lambda _deadline, _now: expire(store, config.snapshot_hours * _HOUR_SECONDS),
        ),
        Job(
            "files",
            _HOUR_SECONDS,
            "the lake's files are read, and held to what was written",
            lambda deadline, now: check_files(store, deadline, now),
        ),
        Job("orphans", _DAY_SECONDS, "files that nobody ever named are removed", lambda _d, _n: remove_orphans(store)),
        Job("catalogue", _DAY_SECONDS, "the catalogue's file is tidied up", lambda _d, _n: shrink(store)),
    )
    return (*every, *of_lake) if store.lake is not None else every
