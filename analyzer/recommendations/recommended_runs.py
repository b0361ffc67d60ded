"""Which runs a recommendation is about, by its id alone: for one that no list of the fleet's period has.

A run's report reads its own hours, in whatever week they lie. What it offers must be known to whoever asks by its id.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from analyzer.ids import short_id
from analyzer.recommendations.proposal import KINDS

if TYPE_CHECKING:
    from collector.store.session import Session

_RUNS_MOST = 20  # of one name: the newest are looked at
# What each run lost time to, as findings name it, the newest first.
_LOST = """
SELECT coalesce(r.name, l.run_id), r.team, l.cause, l.run_id, max(l.hour) AS last_at
FROM ledger l LEFT JOIN runs r USING (run_id)
WHERE l.run_id IS NOT NULL AND l.cause IS NOT NULL AND l.state NOT IN ('productive', 'unobserved', 'starting')
GROUP BY 1, 2, 3, 4 ORDER BY last_at DESC, 4
"""


def recommendation_id(subject: str, team: str | None, kind: str, cause: str) -> str:
    """Return the id of a change: the same for the same subject, whatever period it is read of."""
    return short_id("r", subject, team or "", kind, cause)


def runs_of(session: "Session", typed: str) -> Iterator[str]:
    """Yield the runs whose own reports may offer a recommendation of this id, the newest first.

    Raises:
        StoreError: the store does not answer.
    """
    meant: dict[tuple[str, str | None, str], bool] = {}
    count = 0
    for subject, team, cause, run_id, _ in session.rows(_LOST):
        key = (subject, team, cause)
        if key not in meant:
            meant[key] = any(recommendation_id(subject, team, kind, cause).startswith(typed) for kind in KINDS)
        if meant[key]:
            yield run_id
            count += 1
            if count == _RUNS_MOST:
                return
