"""How long to wait after a failure: doubling, with jitter, bounded; what the collector asks for is obeyed."""

import email.utils
import random
from collections.abc import Callable
from datetime import datetime, timezone

from agent.connection import pause_seconds

_FIRST_SECONDS = 1.0
LONGEST_SECONDS = 300.0
LONGEST_ASKED_SECONDS = 3600.0  # beyond this a Retry-After is a mistake, and obeying it an outage


class Backoff:
    """The waits of one sender. `fraction` draws from [0, 1)."""

    def __init__(self, fraction: Callable[[], float] = random.random) -> None:
        self._fraction = fraction
        self._failures = 0

    def succeeded(self) -> None:
        """Begin anew at the shortest wait."""
        self._failures = 0

    def seconds(self, asked: float | None = None) -> float:
        """Return how long to wait after one more failure.

        Between half of the doubled wait and all of it, so that a thousand agents do not come back in one second. Never
        less than the collector asked for, and up to as much again: it asked the thousand for the same.
        """
        fraction = self._fraction()
        wait = pause_seconds(self._failures, _FIRST_SECONDS, LONGEST_SECONDS, lambda: fraction)
        most = min(LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(self._failures, 30))
        self._failures += 1
        if asked is None:
            return wait
        asked = min(asked, LONGEST_ASKED_SECONDS)
        return max(wait, asked + min(asked, most) * fraction)


def retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds that a Retry-After header asks for, as seconds or as a date; None where it is neither.

    `now` is the clock of who answered: ours may differ from it by hours.
    """
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header.strip())
    until = http_date(header)
    return None if until is None else max(0.0, (until - (now or datetime.now(timezone.utc))).total_seconds())


def http_date(header: str | None) -> datetime | None:
    """Return the moment of an HTTP date, None where it is none."""
    try:
        moment = email.utils.parsedate_to_datetime(header or "")
    except (ValueError, TypeError, OverflowError, IndexError):  # what the parser raises depends on what is wrong
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
