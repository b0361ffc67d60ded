"""A collector among others: it takes the batches of streams that it has the lease of, and names the owner of others'.

A stream that changes hands changes its epoch. What the earlier owner had answered and not sealed is lost to the site
with that owner, and the agent still keeps it: so a stream of a new epoch is only taken from an agent that says this
epoch, which it says once it has put everything that it keeps in line again. The earlier owner, should it come back,
finds that it no longer has the lease, and forgets what it had not sealed.

Which of several analyzers of one lake books into it is a lease like those of agents' streams. It saves work, and says
who it is; that nothing is booked twice is the lake's own doing (store/booking.py), since a holder may wake up after its
lease has gone to another.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from collector.background import Background, now_us
from collector.errors import BatchError, HeldElsewhereError, RegistryError
from collector.registry.leases import Lease
from collector.registry.registry import Registry

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

    def __init__(self, registry: Registry, number: int) -> None:
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
        lease = self._registry.leases.acquire([NAME], self._number, now_us())[NAME]
        names = {one.number: one.name for one in self._registry.collectors.listed()}
        self.holder = LakeBooker(names.get(lease.collector, "?"), lease.url, lease.since, lease.is_mine)
        if not lease.is_mine:
            raise HeldElsewhereError(_elsewhere(self.holder))
        if lease.taken_over_from is not None:
            before = names.get(lease.taken_over_from, "?")
            _LOG.warning("this analyzer now writes the lake's books; %s, which wrote them, has been silent", before)
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
                    "the analyzer's lease went to another during this pass; nothing of the pass was booked"
                )
            yield

    def release(self) -> None:
        """Give the lease back, so that another need not wait until we count as silent."""
        try:
            self._registry.leases.release([NAME], self._number)
        except RegistryError as error:
            _LOG.warning("the analyzer's lease could not be released and will expire: %s", error)
        self.holder = None


def _elsewhere(holder: LakeBooker) -> str:
    since = datetime.fromtimestamp(holder.since / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
    return (
        f"{holder.name} ({holder.url}) books into this lake, since {since} UTC; this analyzer follows its books, and "
        "takes over when that one is stopped or falls silent"
    )


_LEASE_SECONDS = 30.0  # of silence, after which others may take our streams
_BEAT_SECONDS = 10.0
MAX_STREAMS = 100_000  # remembered; of others the registry is asked again
_FIRST_EPOCH = 1  # of a stream that has never changed hands


@dataclass(frozen=True, slots=True)
class StreamDecisions:
    """What is to be answered to each batch instead of taking it, None where it is taken; and whose streams are new."""

    answers: list[BatchError | None]
    acquired: Mapping[str, int]  # stream -> since when it is ours, microseconds UTC


class Tenant(Background):
    """The leases of one collector, which a restart keeps: they outlast its end. `number` is its own, for good."""

    def __init__(self, registry: Registry, name: str, url: str, identity: str) -> None:
        super().__init__("heartbeat", _BEAT_SECONDS)
        self.number = registry.collectors.claim_number(name, url, identity)
        self._registry = registry
        self._mine: OrderedDict[str, int] = OrderedDict()  # stream -> epoch
        self._alive_until = 0.0  # monotonic seconds; after that others may have taken what we think is ours
        self._failing = False

    def start(self) -> None:
        """Show that we are alive, from now on."""
        self._beat()
        super().start()

    def stop(self) -> None:
        """End, and close the registry, which this one alone uses; the leases stay."""
        super().stop()
        self._registry.close()

    def judge(self, asked: Sequence[tuple[str, int | None]]) -> StreamDecisions:
        """Judge batches by stream and by the epoch that their agent says; take the leases that nobody has.

        Raises:
            RegistryError: nobody can say whose these streams are; agents try again.
        """
        if time.monotonic() >= self._alive_until:
            raise RegistryError("this collector could not renew its lease; send the batch again")
        mine = self._mine  # the heartbeat may put another in its place meanwhile
        epochs = {stream: mine.get(stream) for stream, _ in asked}
        unknown = {stream for stream, epoch in epochs.items() if epoch is None}
        leases = self._acquired(unknown) if unknown else {}
        epochs |= {stream: lease.epoch for stream, lease in leases.items()}
        answers = [_answer(stream, said, leases.get(stream), epochs[stream]) for stream, said in asked]
        return StreamDecisions(answers, {name: lease.since for name, lease in leases.items() if lease.is_mine})

    def booking_lease(self) -> BookingLease:
        """Return our claim to the lease under which the lake is booked into."""
        return BookingLease(self._registry, self.number)

    @contextmanager
    def guard(self, streams: Iterable[str]) -> Iterator[dict[str, int]]:
        """Keep our streams from being taken during a commit; give since when each of these is ours, if it still is.

        Raises:
            RegistryError: the registry does not answer; what was to be committed must wait.
        """
        with self._registry.leases.guard(self.number, streams) as held:
            yield held

    def _acquired(self, streams: set[str]) -> dict[str, Lease]:
        leases = self._registry.leases.acquire(streams, self.number, now_us())
        for lease in leases.values():
            if lease.taken_over_from is not None:
                _LOG.warning("stream %s is ours now; collector %d has been silent", lease.stream, lease.taken_over_from)
            if lease.is_mine:
                self._mine[lease.stream] = lease.epoch
        while len(self._mine) > MAX_STREAMS:
            self._mine.popitem(last=False)
        return leases

    def _run(self) -> None:
        while not self._ending.wait(_BEAT_SECONDS):
            try:
                self._beat()
            except RegistryError as error:
                if not self._failing:
                    _LOG.error(
                        "the registry does not answer; batches are accepted for %g s more: %s", _LEASE_SECONDS, error
                    )
                self._failing = True

    def _beat(self) -> None:
        began = time.monotonic()
        unbroken = self._registry.collectors.heartbeat(self.number, now_us(), _LEASE_SECONDS)
        if not unbroken:
            held = self._registry.leases.held(self.number)
            self._mine = OrderedDict((name, epoch) for name, epoch in self._mine.items() if held.get(name) == epoch)
        self._alive_until = began + _LEASE_SECONDS
        if self._failing:
            _LOG.warning("the registry answers again")
        self._failing = False


def _answer(stream: str, said: int | None, lease: Lease | None, epoch: int | None) -> BatchError | None:
    if lease is not None and not lease.is_mine:
        sentence = f"stream {stream} belongs to another collector; send its batches there"
        return BatchError(421, "elsewhere", sentence, location=f"{lease.url.rstrip('/')}/v1/batches")
    if epoch is None:
        raise RegistryError(f"the registry does not say which collector has the stream {stream}; send the batch again")
    if epoch > _FIRST_EPOCH and said != epoch:
        sentence = f"stream {stream} has moved to another collector; resend what you have of it, under epoch {epoch}"
        return BatchError(412, "epoch", sentence, epoch=epoch)
    return None
