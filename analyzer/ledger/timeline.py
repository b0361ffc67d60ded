"""How a run's time went from its start to its end, in as many points as the eye wants."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.store.session import Session


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """GPU time of one state in one stretch of a run; `bucket_start` is in microseconds UTC."""

    bucket_start: int
    state: str
    cause: str | None
    milliseconds: int


def timeline(
    session: "Session", run_id: str, points: int = 60, within: tuple[int, int] = (0, 2**62)
) -> list[TimelinePoint]:
    """Return the run's time in `points` stretches of equal length, or fewer where it was kept less finely.

    `within` are the microseconds between which it is looked at. A stretch takes the buckets that begin in it; the last
    may be cut short by the run's end.
    """
    rows = session.rows(
        """
        SELECT bucket_start, state, cause, sum(milliseconds)::BIGINT FROM run_timeline
        WHERE run_id = ? AND bucket_start >= ? AND bucket_start < ? GROUP BY ALL ORDER BY ALL
        """,
        [run_id, *within],
    )
    if not rows:
        return []
    starts = sorted({row[0] for row in rows})
    fine = min((later - earlier for earlier, later in pairwise(starts)), default=1)
    span = starts[-1] + fine - starts[0]
    width = max(fine, -(-span // points // fine) * fine)
    sums: dict[tuple[int, str, str | None], int] = defaultdict(int)
    for start, state, cause, milliseconds in rows:
        sums[starts[0] + (start - starts[0]) // width * width, state, cause] += milliseconds
    return [TimelinePoint(*key, ms) for key, ms in sorted(sums.items(), key=lambda item: (item[0][0], item[0][1:2]))]
