"""Which hours wait to be rolled up: those that anything touches which arrived since they were.

The hours are written down before they are rolled up. So a pass that ends early leaves the rest to the next, and of two
collectors that take the same hour one loses: both take its row away, and a lake lets only one of them commit.
"""

from typing import TYPE_CHECKING

from agent.wire.units import HOUR_US
from collector.lake.tiers.pieces import Span
from collector.lake.tiers.retained import kept_from
from collector.store.numbering import COLLECTOR_BITS, COLLECTORS
from collector.tier_tables import TIERED

if TYPE_CHECKING:
    from collector.store.session import Session

# Batches are numbered by the clock when they are taken and may become visible in another order, a long import last.
# What was numbered so long before the mark is therefore looked at again; the newest hours are rolled up again anyway.
_UNSURE_US = HOUR_US
ROLLED = -1  # in tier_marks, in the place of a collector: the newest hour that was rolled up


def note(session: "Session") -> int:
    """Write down the hours that what arrived since the last call touches, and return how many were new.

    Hours whose samples have expired are left out: a late sample must not replace what all of them said. The caller
    holds the transaction.

    Raises:
        StoreError: the store refused; nothing of it may be kept.
    """
    seen = dict(session.rows("SELECT collector, max(upto) FROM tier_marks GROUP BY collector"))
    newest = session.rows(f"SELECT batch & {COLLECTORS - 1}, max(batch) FROM receipts GROUP BY ALL ORDER BY ALL")
    hours: set[int] = set()
    for collector, upto in newest:
        before = seen.get(collector, -1)
        if upto > before:
            hours |= _touched(session, collector, before - (_UNSURE_US << COLLECTOR_BITS))
            session.execute("DELETE FROM tier_marks WHERE collector = ?", [collector])
            session.execute("INSERT INTO tier_marks VALUES (?, ?)", [collector, upto])
    known = set(waiting_hours(session))
    first = kept_from(session, TIERED)
    new = sorted(hour for hour in hours - known if hour >= first)
    session.load("tier_due", ("hour",), [(hour,) for hour in new])
    return len(new)


def waiting_hours(session: "Session") -> list[int]:
    """Return the first microseconds of the hours that wait, ascending."""
    return [hour for (hour,) in session.rows("SELECT DISTINCT hour FROM tier_due ORDER BY hour")]


def forget_expired(session: "Session") -> None:
    """Take hours off the list whose samples are gone, in the transaction that drops them.

    Rolled up again they would be empty, and what all their samples had said would be lost.
    """
    session.execute("DELETE FROM tier_due WHERE hour < ?", [kept_from(session, TIERED)])


def done(session: "Session", hours: Span, now_us: int | None = None) -> None:
    """Take hours off the list, in the transaction that rolls them up, and note how far that has come.

    That is to the hour of `now_us` at most (None: history, of which all is over): a host's clock may be a day ahead,
    and an hour that has not begun would keep everybody's readers from the samples of this one.
    """
    session.execute("DELETE FROM tier_due WHERE hour >= ? AND hour < ?", [hours.start, hours.end])
    (rolled,) = session.row("SELECT coalesce(max(upto), 0) FROM tier_marks WHERE collector = ?", [ROLLED])
    newest = hours.end - HOUR_US
    if now_us is not None:
        newest = min(newest, now_us // HOUR_US * HOUR_US)
    if newest >= hours.start and newest > rolled:
        session.execute("DELETE FROM tier_marks WHERE collector = ?", [ROLLED])
        session.execute("INSERT INTO tier_marks VALUES (?, ?)", [ROLLED, newest])


def _touched(session: "Session", collector: int, after: int) -> set[int]:
    # Written out, not as parameters: the lake then knows which files cannot have any.
    fresh = f"batch > {after} AND batch & {COLLECTORS - 1} = {collector}"
    parts = [f"SELECT started_at, ended_at FROM {table} WHERE {fresh}" for table in TIERED]
    rows = session.rows(
        f"""
        SELECT DISTINCT unnest(range(first, last + 1)) * {HOUR_US} FROM (
            SELECT DISTINCT started_at // {HOUR_US} AS first, greatest(ended_at - 1, started_at) // {HOUR_US} AS last
            FROM ({" UNION ALL ".join(parts)}))
        """
    )
    return {hour for (hour,) in rows}
