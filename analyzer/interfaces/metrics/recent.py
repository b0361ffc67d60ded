"""What runs did, each and together, in the newest ten minutes that are wholly booked; all else waits for whole hours.

The ledger's newest hour is booked as far as it is known, with every pass. Its states may still change until the hour
closes, so no cost is told of it; what somebody should hear of within minutes does not wait for that.
"""

from dataclasses import dataclass

from analyzer.interfaces.live.live_query import booked_until
from analyzer.interfaces.metrics.losing import RUNS_SHOWN, UNMAPPED, RunPart
from analyzer.period import WINDOW_MS
from analyzer.states import Class, booking, words_of
from collector.store.session import Session

STRETCH_US = WINDOW_MS * 1000  # of the timeline that booking writes beside the ledger

_RUNS = """
WITH stretch AS (
    SELECT run_id, state, cause, sum(milliseconds)::BIGINT AS milliseconds,
        (state || '/' || coalesce(cause, '')) IN (SELECT unnest($avoidable)) AS is_lost
    FROM run_timeline WHERE bucket_start >= $start AND bucket_start < $end GROUP BY ALL
), most AS (
    SELECT run_id FROM stretch WHERE is_lost GROUP BY run_id ORDER BY sum(milliseconds) DESC, run_id LIMIT $shown
)
SELECT s.run_id, coalesce(r.name, ''), coalesce(r.team, $unmapped), s.state, s.cause, s.milliseconds
FROM stretch s JOIN most USING (run_id) LEFT JOIN runs r USING (run_id) ORDER BY ALL
"""

_STATES = """
SELECT state, cause, sum(milliseconds)::BIGINT FROM run_timeline
WHERE bucket_start >= $start AND bucket_start < $end GROUP BY ALL ORDER BY ALL
"""


@dataclass(frozen=True, slots=True)
class HeldPart:
    """GPU time of all runs in one state and cause, in the newest stretch."""

    klass: Class
    state: str
    cause: str
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Recent:
    """The runs that lost most in the ten minutes before `until` (microseconds UTC), in all of their states.

    `held` is of all runs, those that are not among them too.
    """

    until: int
    runs: tuple[RunPart, ...] = ()
    held: tuple[HeldPart, ...] = ()


def read_recent(session: Session) -> Recent:
    """Return the newest stretch that is wholly booked.

    Raises:
        LedgerError: the ledger is empty.
    """
    end = booked_until(session) // STRETCH_US * STRETCH_US
    stretch: dict[str, object] = {"start": end - STRETCH_US, "end": end}
    asked = {"avoidable": words_of("avoidable"), "unmapped": UNMAPPED, "shown": RUNS_SHOWN}
    rows = session.rows(_RUNS, stretch | asked)
    states = session.rows(_STATES, stretch)
    return Recent(
        end,
        tuple(
            RunPart(row[0], row[1], row[2], booking(row[3], row[4]).klass, row[3], row[4] or "", row[5]) for row in rows
        ),
        tuple(HeldPart(booking(state, cause).klass, state, cause or "", ms) for state, cause, ms in states),
    )
