"""What a start consists of: the image first, then the weights, then the first kernels until the work is steady.

SQL says when each sign was first seen of a start (starting.sql); here its milliseconds are divided. What cannot be told
apart is loading: without the memory gauge, and without a word of the run's processes, nobody saw an image come.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from analyzer.ledger.thresholds import Thresholds
from analyzer.queries.statements import run as run_sql

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class StartSeen:
    """What was seen of one start on one GPU, within [from_ms, started_ms). None was not seen, or is not reported."""

    from_ms: int
    started_ms: int  # where starting ends: work, or a quarter of an hour
    has_memory: bool = False
    context_ms: int | None = None  # first sample with more memory in use than a context takes
    kernel_ms: int | None = None  # first sample that works at all
    life_ms: int | None = None  # first sign of a process of the run on this host
    is_pod: bool = False
    written_bytes: int | None = None  # by the run to disks before it had a context


@dataclass(frozen=True, slots=True)
class StartParts:
    """Where the image ends and where warming up begins: from_ms <= image_until_ms <= warm_from_ms <= started_ms."""

    image_until_ms: int
    warm_from_ms: int


def parts(seen: StartSeen, limits: Thresholds) -> StartParts:
    """Divide one start.

    An image is being pulled while there is no GPU context, and either no process of a pod yet, or the run itself
    unpacks a gigabyte and more. It warms up from its first kernel to its steady work. The rest loads.
    """
    warm = seen.started_ms if seen.kernel_ms is None else _between(seen.from_ms, seen.kernel_ms, seen.started_ms)
    bare = warm if seen.context_ms is None else _between(seen.from_ms, seen.context_ms, warm)
    if not seen.has_memory:
        bare = seen.from_ms
    if seen.is_pod and seen.life_ms is not None:
        return StartParts(_between(seen.from_ms, seen.life_ms, bare), warm)
    unpacks = seen.written_bytes is not None and seen.written_bytes >= limits.image_bytes
    return StartParts(bare if unpacks else seen.from_ms, warm)


def find_starts(session: "Session", from_ms: int, until_ms: int, limits: Thresholds) -> None:
    """Fill the temporary table `starts` (rid, attempt, uid, from_ms, image_until_ms, warm_from_ms) for one day."""
    run_sql(
        session,
        "ledger/starting.sql",
        from_ms=from_ms,
        until_ms=until_ms,
        margin_ms=limits.starting_margin_ms,
        starting_ms=limits.starting_ms,
        held_mb=limits.held_mb,
        active_permille=limits.active_permille,
        process_bytes=limits.process_bytes,
    )
    names = ", ".join(field.name for field in fields(StartSeen))
    rows = session.rows(f"SELECT rid, attempt, uid, {names} FROM starts_seen ORDER BY ALL")
    divided = [(*key, *_cut(StartSeen(*seen), limits)) for *key, seen in ((*row[:3], row[3:]) for row in rows)]
    session.execute(
        """
        CREATE OR REPLACE TEMP TABLE starts (
            rid BIGINT, attempt BIGINT, uid BIGINT, from_ms BIGINT, image_until_ms BIGINT, warm_from_ms BIGINT)
        """
    )
    session.load("starts", ("rid", "attempt", "uid", "from_ms", "image_until_ms", "warm_from_ms"), divided)


def _cut(seen: StartSeen, limits: Thresholds) -> tuple[int, int, int]:
    cut = parts(seen, limits)
    return seen.from_ms, cut.image_until_ms, cut.warm_from_ms


def _between(low: int, value: int, high: int) -> int:
    return max(low, min(value, high))
