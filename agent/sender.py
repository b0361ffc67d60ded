"""Deliver batches to the collector, oldest first, on a thread of its own, so that no beat waits for a network.

Exactly once is the collector's part (stream, sequence and hash); ours is to send each batch until it is answered:

    2xx            it is there; kept until `sealed_through` has passed it
    409            our sequence is taken by another body: a new stream
    400, 413, 422  it will never be taken: set aside and counted
    421            another collector owns our stream: its address is followed, once a batch
    else           it waits: 426 for an upgrade of the collector, 401 and 403 for a token, 429 and 5xx for better times
"""

import http.client
import logging
import threading
from dataclasses import dataclass

from agent.backoff import LONGEST_SECONDS, Backoff, retry_after
from agent.clock import MICROSECONDS, Clock
from agent.errors import ConfigError
from agent.post import Answer, Link
from agent.spool import Spool

_LOG = logging.getLogger(__name__)
HOPELESS = (400, 413, 422)
IDLE_SECONDS = 2.0  # after which a connection without work is closed


@dataclass(slots=True)
class SenderCounts:
    """What the sender did since the agent began. The offset is the collector's clock less ours, in seconds."""

    delivered: int = 0
    refused: int = 0
    failures: int = 0
    streams_begun: int = 0
    clock_offset_seconds: float | None = None


class Sender:
    """Empties a spool into a collector; start() it, stop() it."""

    def __init__(self, spool: Spool, link: Link, clock: Clock, backoff: Backoff | None = None) -> None:
        self._spool = spool
        self._home = link
        self._link = link
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)
        self._trouble = ""
        self._sealed_through = -1
        self.counts = SenderCounts()

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Stop after the batch that is on its way, or after the timeout; what is left lies in the spool."""
        self._stop.set()
        self._spool.wake()
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                wait = self.step(IDLE_SECONDS)
            except Exception as error:  # noqa: BLE001  a mistake of ours must not end delivery for good
                _LOG.exception("BUG: the sender failed")
                wait = self._later(repr(error))
            if wait:
                self._stop.wait(wait)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def step(self, idle_seconds: float) -> float:
        """Send the oldest batch, if one comes in time; return the seconds to wait before the next step."""
        batch = self._spool.oldest(idle_seconds)
        if batch is None:
            self._link.close()
            return 0.0
        sequence, body = batch
        try:
            answer = self._ask(body)
        except (OSError, http.client.HTTPException) as error:
            return self._later(f"{self._link.url} does not answer: {error!r}")
        try:
            return self._judge(sequence, answer)
        except OSError as error:
            return self._later(f"the spool cannot be written: {error}")

    def _ask(self, body: bytes) -> Answer:
        """Post to the owner of our stream as far as we know it, and once more where that one names another."""
        before = self._clock.wall()
        try:
            answer = self._link.post(body)
            if answer.status == 421 and (owner := self._owner(answer)) is not None:
                self._link.close()
                self._link = owner
                before = self._clock.wall()
                answer = owner.post(body)
        except (OSError, http.client.HTTPException):
            self._link.close()
            self._link = self._home  # an owner that is gone is asked for again at the front door
            raise
        if answer.server_time is not None:
            middle = (before + self._clock.wall()) / 2
            self.counts.clock_offset_seconds = (answer.server_time - middle) / MICROSECONDS
        return answer

    def _owner(self, answer: Answer) -> Link | None:
        """Return a link to the owner of our stream; never from HTTPS to HTTP, where the token would be read."""
        try:
            owner = self._home.other(answer.location or "")
        except ConfigError:
            return None
        return owner if owner.secure or not self._home.secure else None

    def _judge(self, sequence: int, answer: Answer) -> float:
        if 200 <= answer.status < 300:
            self._delivered(sequence, answer)
            return 0.0
        if answer.status == 409:
            self._spool.begin_stream()
            self.counts.streams_begun += 1
            self._sealed_through = -1
            _LOG.warning(
                "the collector knows batch %d with other content: going on as stream %s", sequence, self._spool.stream
            )
            return 0.0
        if answer.status in HOPELESS:
            self._spool.refuse(sequence, f"the collector answered {answer.status}: {answer.error}")
            self.counts.refused += 1
            return 0.0
        asked = retry_after(answer.retry_after)
        if answer.status == 426:
            asked = max(asked or 0.0, LONGEST_SECONDS)
        return self._later(f"{self._link.url} answered {answer.status}: {answer.error}", asked)

    def _delivered(self, sequence: int, answer: Answer) -> None:
        sealed = sequence if answer.sealed_through is None else answer.sealed_through
        self._spool.acknowledge(sequence, sealed)
        self.counts.delivered += 1
        self._backoff.succeeded()
        if self._trouble:
            _LOG.info("%s takes batches again", self._link.url)
            self._trouble = ""
        if sealed < self._sealed_through:
            _LOG.warning(
                "the collector has sealed through %d, and had through %d: what is kept is sent again",
                sealed,
                self._sealed_through,
            )
            self._spool.send_again()
        self._sealed_through = sealed

    def _later(self, trouble: str, asked: float | None = None) -> float:
        self._spool.release()
        self._link.close()  # a wait is no reason to hold a connection of theirs
        self.counts.failures += 1
        if not self._trouble:
            _LOG.warning("%s; batches wait in the spool", trouble)
        self._trouble = trouble
        return self._backoff.seconds(asked)
