"""How long to wait after a failure: doubling, with jitter, bounded; what the collector asks for is obeyed."""

import email.utils
import random
from collections.abc import Callable
from datetime import UTC, datetime

FIRST_SECONDS = 1.0
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

        Between half of the doubled wait and all of it, so that a thousand agents do not come back in one second; never
        less than the collector asked for.
        """
        wait = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures, 30))
        self._failures += 1
        jittered = wait / 2 + wait / 2 * self._fraction()
        return max(jittered, min(asked, LONGEST_ASKED_SECONDS)) if asked is not None else jittered


def retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds that a Retry-After header asks for, as seconds or as a date; None where it is neither."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        until = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())
