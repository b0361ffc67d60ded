"""The job that rolls up: every hour that something new touches, oldest first, a day at most in one transaction."""

import time
from typing import TYPE_CHECKING

from collector.tiers import due
from collector.tiers.pieces import Span
from collector.tiers.rolling import roll
from collector.tiers.tables import HOUR_US
from collector.upkeep.outcome import Outcome
from collector.upkeep.writing import writing

if TYPE_CHECKING:
    from collector.store.database import Store

DAY_US = 24 * HOUR_US
# What a transaction costs, several hours cost once; but it should not be lost with more than so much work in it.
UNIT_SECONDS = 15.0


def roll_up(store: "Store", deadline: float) -> Outcome:
    """Roll up what waits until the deadline (time.monotonic).

    Raises:
        StoreError: the store refused some hours; those before them are kept.
    """
    with writing(store) as session:
        due.note(session)
        waiting = due.waiting(session)
    done = rows = 0
    most = 1
    while done < len(waiting) and not (done and time.monotonic() > deadline):
        hours = _together(waiting[done:], most)
        began = time.monotonic()
        with writing(store) as session:
            due.done(session, hours)
            rows += roll(session, hours)
        taken = (hours.end - hours.start) // HOUR_US
        most = max(1, int(UNIT_SECONDS * taken / max(time.monotonic() - began, 0.001)))
        done += taken
    left = len(waiting) - done
    said = f"{done} hours rolled up to {rows} minutes" + (f", {left} wait" if left else "")
    return Outcome(said, done, again=left > 0)


def _together(waiting: list[int], most: int) -> Span:
    """Return the first of the hours that wait, with those that follow it at once: of one day, and not too many."""
    first = waiting[0]
    end = first + HOUR_US
    while end in waiting and end % DAY_US and end - first < most * HOUR_US:
        end += HOUR_US
    return Span(first, end)
