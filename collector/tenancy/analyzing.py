"""Which of several analyzers of one lake books into it: one at a time, by a lease like those of agents' streams.

The lease saves work, and says who it is; that nothing is booked twice is the lake's own doing (store/booking.py), since
a holder may wake up after its lease has gone to another.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from collector.errors import HeldElsewhereError, RegistryError

if TYPE_CHECKING:
    from collector.registry import Registry

_LOG = logging.getLogger(__name__)
NAME = "\tbooks"  # among the streams: no agent's can be called so, theirs are printable


@dataclass(frozen=True, slots=True)
class LakeBooker:
    """Who books into the lake, and since when (microseconds UTC)."""

    name: str
    url: str
    since: int
    is_mine: bool


class BookingLease:
    """One analyzer's claim to the lease. It holds for as long as the collector of this number shows itself alive."""

    def __init__(self, registry: "Registry", number: int) -> None:
        self._registry = registry
        self._number = number
        self.holder: LakeBooker | None = None  # as of the last time that the registry was asked

    def take(self) -> LakeBooker:
        """Take the lease where nobody alive has it, and return ourselves.

        Raises:
            HeldElsewhereError: another analyzer has it; the sentence names it and the way out.
            RegistryError: nobody can say who has it; nothing may be booked.
        """
        self.holder = None
        lease = self._registry.leases.acquire([NAME], self._number, time.time_ns() // 1000)[NAME]
        names = {one.number: one.name for one in self._registry.collectors.listed()}
        self.holder = LakeBooker(names.get(lease.collector, "?"), lease.url, lease.since, lease.is_mine)
        if not lease.is_mine:
            raise HeldElsewhereError(_elsewhere(self.holder))
        if lease.taken_over_from is not None:
            before = names.get(lease.taken_over_from, "?")
            _LOG.warning("the lake's books are kept here now; %s, which kept them, has been silent", before)
        return self.holder

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Keep others from taking the lease while the block books.

        Raises:
            HeldElsewhereError: it has gone to another meanwhile; nothing may be booked.
            RegistryError: the registry does not answer; nothing may be booked.
        """
        with self._registry.leases.guard(self._number, [NAME]) as held:
            if NAME not in held:
                self.holder = None
                raise HeldElsewhereError(
                    "the analyzer's lease went to another during this pass, of which nothing was booked"
                )
            yield

    def release(self) -> None:
        """Give the lease back, so that another need not wait until we count as silent."""
        try:
            self._registry.leases.release([NAME], self._number)
        except RegistryError as error:
            _LOG.warning("the analyzer's lease could not be given back, and ends by itself: %s", error)
        self.holder = None


def _elsewhere(holder: LakeBooker) -> str:
    since = datetime.fromtimestamp(holder.since / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
    return (
        f"{holder.name} ({holder.url}) books into this lake, since {since} UTC; this analyzer follows its books, and "
        "takes over when that one is stopped or falls silent"
    )
