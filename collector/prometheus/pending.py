"""A remote write request whose answer waits until everything in it is durable."""

import threading
from concurrent.futures import Future
from dataclasses import dataclass

from collector.errors import BatchError


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a request: what was accepted of it, how many samples were refused, and why."""

    samples: int
    refused: int
    why: str = ""
    histograms: int = 0  # accepted and left out: the contract has no word for them
    exemplars: int = 0


class Pending:
    """What one request still waits for. `answer` holds the Written, or the BatchError that tells the sender to repeat.

    It is counted by the receiver's thread, and let go by the writer's.
    """

    def __init__(self) -> None:
        self.answer: Future[Written] = Future()
        self.samples = self.histograms = self.exemplars = 0
        self.repeats: set[str] = set()  # targets of which something came again
        self._refused = 0
        self._why = ""
        self._open = 1  # buckets and batches to wait for, and the reading of the request itself
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def refuse(self, why: str, count: int = 1) -> None:
        """Count samples, of those that were counted, that can never be written."""
        self.samples -= count
        self._refused += count
        self._why = self._why or why

    def hold(self) -> None:
        """Wait for one thing more."""
        with self._lock:
            self._open += 1

    def done(self, error: BaseException | None = None) -> None:
        """One of the things that it waited for is there, or has failed."""
        with self._lock:
            self._open -= 1
            self._error = self._error or error
            if self._open:
                return
        if self._error is None:
            self.answer.set_result(Written(self.samples, self._refused, self._why, self.histograms, self.exemplars))
        else:
            self.answer.set_exception(self._error)

    def fail(self, error: BaseException) -> None:
        """What it waits for will not all come; the answer says so when the rest is settled."""
        with self._lock:
            self._error = self._error or error


def temporary(error: BaseException) -> BatchError:
    """Return the answer to what may go well the next time.

    Always 503: Prometheus drops what is answered with 429, unless it is told otherwise (retry_on_http_429).
    """
    reason = error.reason if isinstance(error, BatchError) else "store"
    return BatchError(503, reason, f"not all of the request is stored; send it again, it counts once: {error}")
