"""Deliver batches to the collector, oldest first, on a thread of its own, so that no beat waits for a network.

Exactly once is the collector's part (stream, sequence and hash); ours is to send each batch until it is answered:

    2xx            it is there; kept until `sealed_through` has passed it
    409            our sequence is taken by another body: a new stream
    400, 413, 422  it will never be taken: set aside and counted
    421            another collector owns our stream: its address is followed, once a batch
    412            our stream has changed hands: what is kept is sent again, under the epoch that the answer names
    else           it waits: 426 for an upgrade of the collector, 401 and 403 for a token, 429 and 5xx for better times

Only a collector may say that a batch has arrived, or never will: the same status from a proxy, a login page or a port
that is not a collector's waits like everything else, until somebody has put it right.
"""

import logging
import threading
from dataclasses import dataclass

from agent.clock import Clock
from agent.delivery.link import LONGEST_SECONDS, Backoff, Link, PostAnswer, retry_after
from agent.spool.queue import Spool
from agent.wire.units import HOUR_SECONDS, SECOND_US

_LOG = logging.getLogger(__name__)
_HOPELESS = (400, 413, 422)
_CUT_SHORT = "disconnected"  # the reason of a 400 that a network has made, and not the batch
_CLOCK = "clock"  # the reason of a 422 for a batch from the future
_CLOCKS_APART_SECONDS = 23 * HOUR_SECONDS  # a collector refuses what is a day ahead of it
_STEP_SECONDS = 1.0  # of the wall clock during a request, beyond which the request measures no offset
LAST_BATCHES = 8  # that are sent when the agent ends, where somebody takes them
_IDLE_SECONDS = 2.0  # after which a connection without work is closed


@dataclass(slots=True)
class _SenderCounts:
    """What the sender did since the agent began. The offset is the collector's clock less ours, in seconds."""

    delivered: int = 0
    rows_put_aside: int = 0
    refused: int = 0
    failures: int = 0
    streams_begun: int = 0
    clock_offset_seconds: float | None = None


class _NoAnswerError(Exception):
    """Nobody answered; whether the batch arrived is not known."""


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
        self._begun = ""  # a stream that we began and that was not accepted yet
        self._sealed_through = -1
        self._epoch: int | None = None  # of our stream, where it has changed hands
        self.counts = _SenderCounts()

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
            if wait := self._tried(_IDLE_SECONDS):
                self._stop.wait(wait)
        for _ in range(LAST_BATCHES):
            if not self._trouble and self._spool.waiting:
                self._tried(0)
        self.close()

    def _tried(self, idle_seconds: float) -> float:
        try:
            return self.step(idle_seconds)
        except Exception as error:  # noqa: BLE001  a mistake of ours must not end delivery for good
            _LOG.exception("BUG: the sender failed")
            return self._later("BUG", repr(error))

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def step(self, idle_seconds: float) -> float:
        """Send the oldest batch, if one comes in time; return the seconds to wait before the next step."""
        try:
            batch = self._spool.oldest(idle_seconds)
            if batch is None:
                self._link.close()
                return 0.0
            sequence, body = batch
            return self._judge(sequence, self._ask(body))
        except _NoAnswerError as error:
            return self._later("silent", f"{self._link.url} does not answer: {error.__cause__!r}")
        except OSError as error:
            return self._later("disk", f"the spool cannot be read or written: {error}")

    def _ask(self, body: bytes) -> PostAnswer:
        """Post to the owner of our stream as far as we know it, and once more where that one names another."""
        try:
            answer = self._timed(self._link, body)
            if answer.status == 421 and (owner := self._home.owner(answer.location or "")) is not None:
                self._link.close()
                self._link = owner
                answer = self._timed(owner, body)
        except OSError as error:
            self._link.close()
            self._link = self._home  # an owner that is gone is asked for again at the front door
            raise _NoAnswerError from error
        return answer

    def _timed(self, link: Link, body: bytes) -> PostAnswer:
        """Post, and take the offset of the clocks from the middle of it, where ours did not jump meanwhile."""
        before, began = self._clock.wall(), self._clock.monotonic()
        answer = link.post(body, self._epoch)
        wall, took = self._clock.wall() - before, self._clock.monotonic() - began
        if answer.server_time is not None and abs(wall - took) < _STEP_SECONDS * SECOND_US:
            self.counts.clock_offset_seconds = (answer.server_time - before - took / 2) / SECOND_US
        return answer

    def _judge(self, sequence: int, answer: PostAnswer) -> float:
        if 200 <= answer.status < 300 and answer.sealed_through is not None:
            self._delivered(sequence, answer.sealed_through)
            self._note_disbelief(answer)
            return 0.0
        if answer.status == 409 and answer.reason and self._begun != self._spool.stream:
            self._begin_stream(sequence)
            return 0.0
        if answer.status == 412 and answer.epoch is not None and answer.epoch != self._epoch:
            self._begin_epoch(answer.epoch)
            return 0.0
        if self._hopeless(answer):
            self._spool.refuse(sequence, f"the collector answered {answer.status}: {answer.error}")
            self.counts.refused += 1
            return 0.0
        asked = retry_after(answer.retry_after, answer.date)
        if answer.status == 426:
            asked = max(asked or 0.0, LONGEST_SECONDS)
        return self._later(str(answer.status), f"{self._link.url} answered {answer.status}: {_said(answer)}", asked)

    def _hopeless(self, answer: PostAnswer) -> bool:
        """Return whether the batch will never be taken.

        One from the future is hopeless when it was sealed by a clock that has been set since. While the clocks still
        disagree, one of them will be set, and nobody knows which is wrong.
        """
        if answer.status not in _HOPELESS or answer.reason in ("", _CUT_SHORT):
            return False
        if answer.reason != _CLOCK:
            return True
        return answer.date is not None and (
            self._clock.wall() / SECOND_US - answer.date.timestamp() < _CLOCKS_APART_SECONDS
        )

    def _begin_stream(self, sequence: int) -> None:
        """Begin a new stream, once: who refuses even that has not seen it before, and is mistaken."""
        self._spool.begin_stream()
        self._begun = self._spool.stream
        self._sealed_through = -1
        self._epoch = None  # a new stream has never changed hands
        self.counts.streams_begun += 1
        _LOG.warning(
            "the collector has batch %d with different content: continuing as stream %s", sequence, self._begun
        )

    def _begin_epoch(self, epoch: int) -> None:
        """Send again what is kept: another collector has our stream now, and knows only what the earlier one sealed."""
        _LOG.warning("another collector now owns this stream: resending what it may not have")
        self._epoch = epoch
        self._spool.release()
        self._spool.send_again()

    def _delivered(self, sequence: int, sealed: int) -> None:
        self._spool.acknowledge(sequence, sealed)
        self._begun = ""
        self.counts.delivered += 1
        self._backoff.succeeded()
        if self._trouble:
            _LOG.info("%s accepts batches again", self._link.url)
            self._trouble = ""
        if sealed < self._sealed_through:
            _LOG.warning("the collector has lost batches that it had sealed: resending what is kept")
            self._spool.send_again()
        self._sealed_through = sealed

    def _note_disbelief(self, answer: PostAnswer) -> None:
        """Count the rows that the collector does not believe; say so once, for a faulty driver says it every second."""
        if answer.put_aside and not self.counts.rows_put_aside:
            _LOG.warning(
                "the collector set a row aside as implausible: %s; further ones are only counted", answer.disbelief
            )
        self.counts.rows_put_aside += answer.put_aside

    def _later(self, kind: str, trouble: str, asked: float | None = None) -> float:
        self._spool.release()
        self._link.close()  # a wait is no reason to hold a connection of theirs
        self.counts.failures += 1
        if kind != self._trouble:
            _LOG.warning("%s; batches wait in the spool", trouble)
        self._trouble = kind
        return self._backoff.seconds(asked)


def _said(answer: PostAnswer) -> str:
    if answer.status == 421:
        return f"{answer.error}; its {answer.location!r} is not a valid address, or is on another host without TLS"
    return answer.error if answer.reason else f"{answer.error} (not a collector's response)"
