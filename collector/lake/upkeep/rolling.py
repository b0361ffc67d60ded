"""The job that rolls up: every hour that something new touches, oldest first, a day at most in one transaction."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.wire.units import DAY_US, HOUR_US
from collector.errors import NO_MEMORY, StoreError
from collector.lake.tiers import due
from collector.lake.tiers.pieces import Span
from collector.lake.tiers.rolling import ROWS_AT_ONCE, planned, roll_hours, roll_minutes
from collector.lake.upkeep.outcome import Outcome
from collector.lake.upkeep.writing import writing
from collector.tier_tables import TIERED, tiered

if TYPE_CHECKING:
    from collector.store.database import Store

# What a transaction costs, several hours cost once; but it should not be lost with more than so much work in it.
_UNIT_SECONDS = 15.0
# What else the server does takes of the same memory. Where it does not suffice, less is aggregated at once.
ROWS_LEAST = 10_000


def roll_up(
    store: "Store", deadline: float, give_way: Callable[[], None] = lambda: None, now_us: int | None = None
) -> Outcome:
    """Roll up what waits until the deadline (time.monotonic); `give_way` is called before each transaction.

    Hours after that of `now_us` are rolled up too, and readers go on to take their samples; None is history.

    Raises:
        StoreError: the store refused some hours; those before them are kept.
    """
    with writing(store) as session:
        due.note(session)
        waiting = due.waiting_hours(session)
    done = rows = 0
    most, rows_at_once = 1, ROWS_AT_ONCE
    while done < len(waiting) and not (done and time.monotonic() > deadline):
        hours = _together(waiting[done:], most)
        began = time.monotonic()
        try:
            rows += _rolled(store, hours, give_way, now_us, rows_at_once)
        except StoreError as error:
            if NO_MEMORY not in str(error) or rows_at_once <= ROWS_LEAST:
                raise
            most, rows_at_once = 1, max(ROWS_LEAST, rows_at_once // 4)
            continue
        taken = (hours.end - hours.start) // HOUR_US
        most = max(1, int(_UNIT_SECONDS * taken / max(time.monotonic() - began, 0.001)))
        done += taken
    left = len(waiting) - done
    said = f"{done} hours rolled up to {rows} minutes" + (f", {left} wait" if left else "")
    return Outcome(said, done, again=left > 0)


def _rolled(store: "Store", hours: Span, give_way: Callable[[], None], now_us: int | None, rows_at_once: int) -> int:
    """Roll hours up, in one transaction if that is short; return how many minutes' rows there are.

    Others wait for it: where there are more samples, each portion has a transaction of its own, and the hours are off
    the list of those that wait with the last.
    """
    with store.session() as session:
        portions = [portion for name in TIERED for portion in planned(session, tiered(name), hours, rows_at_once)]
    if sum(portion.samples for portion in portions) > rows_at_once:
        for portion in portions:
            give_way()
            with writing(store) as session:
                roll_minutes(session, portion)
        portions = []
    give_way()
    with writing(store) as session:
        due.done(session, hours, now_us)
        for portion in portions:
            roll_minutes(session, portion)
        return sum(roll_hours(session, tiered(name), hours, rows_at_once) for name in TIERED)


def _together(waiting: list[int], most: int) -> Span:
    """Return the first of the hours that wait, with those that follow it at once: of one day, and not too many."""
    first = waiting[0]
    end = first + HOUR_US
    while end in waiting and end % DAY_US and end - first < most * HOUR_US:
        end += HOUR_US
    return Span(first, end)
