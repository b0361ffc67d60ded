"""A collector among others: it takes the batches of streams that it has the lease of, and names the owner of others'.

A stream that changes hands changes its epoch. What the earlier owner had answered and not sealed is lost to the site
with that owner, and the agent still keeps it: so a stream of a new epoch is only taken from an agent that says this
epoch, which it says once it has put everything that it keeps in line again. The earlier owner, should it come back,
finds that it no longer has the lease, and forgets what it had not sealed.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collector.errors import BatchError, RegistryError
from collector.tenancy.analyzing import BookingLease

if TYPE_CHECKING:
    from collector.registry import Lease, Registry

_LOG = logging.getLogger(__name__)
_LEASE_SECONDS = 30.0  # of silence, after which others may take our streams
_BEAT_SECONDS = 10.0
MAX_STREAMS = 100_000  # remembered; of others the registry is asked again
_FIRST_EPOCH = 1  # of a stream that has never changed hands


@dataclass(frozen=True, slots=True)
class StreamDecisions:
    """What is to be answered to each batch instead of taking it, None where it is taken; and whose streams are new."""

    answers: list[BatchError | None]
    acquired: Mapping[str, int]  # stream -> since when it is ours, microseconds UTC


class Tenant:
    """The leases of one collector. `number` is its own, for good."""

    def __init__(self, registry: "Registry", name: str, url: str, identity: str) -> None:
        self.number = registry.collectors.claim_number(name, url, identity)
        self._registry = registry
        self._mine: OrderedDict[str, int] = OrderedDict()  # stream -> epoch
        self._alive_until = 0.0  # monotonic seconds; after that others may have taken what we think is ours
        self._failing = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Show that we are alive, from now on.

        Raises:
            RegistryError: the registry does not answer.
        """
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """End; the leases end by themselves, so that a restart keeps them."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(_BEAT_SECONDS)

    def judge(self, asked: Sequence[tuple[str, int | None]]) -> StreamDecisions:
        """Judge batches by stream and by the epoch that their agent says; take the leases that nobody has.

        Raises:
            RegistryError: nobody can say whose these streams are; agents try again.
        """
        if time.monotonic() >= self._alive_until:
            raise RegistryError("this collector could not show the others that it is alive; send the batch again")
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

    def _acquired(self, streams: set[str]) -> dict[str, "Lease"]:
        leases = self._registry.leases.acquire(streams, self.number, _now())
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
                        "the registry does not answer; batches are taken for %g s more: %s", _LEASE_SECONDS, error
                    )
                self._failing = True

    def _beat(self) -> None:
        began = time.monotonic()
        unbroken = self._registry.collectors.heartbeat(self.number, _now(), _LEASE_SECONDS)
        if not unbroken:
            held = self._registry.leases.held(self.number)
            self._mine = OrderedDict((name, epoch) for name, epoch in self._mine.items() if held.get(name) == epoch)
        self._alive_until = began + _LEASE_SECONDS
        if self._failing:
            _LOG.warning("the registry answers again")
        self._failing = False


def _answer(stream: str, said: int | None, lease: "Lease | None", epoch: int | None) -> BatchError | None:
    if lease is not None and not lease.is_mine:
        sentence = f"stream {stream} belongs to another collector; send its batches there"
        return BatchError(421, "elsewhere", sentence, location=f"{lease.url.rstrip('/')}/v1/batches")
    if epoch is None:
        raise RegistryError(f"the registry does not say whose stream {stream} is; send the batch again")
    if epoch > _FIRST_EPOCH and said != epoch:
        sentence = f"stream {stream} has changed hands; send what you keep of it again, under epoch {epoch}"
        return BatchError(412, "epoch", sentence, epoch=epoch)
    return None


def _now() -> int:
    return time.time_ns() // 1000
