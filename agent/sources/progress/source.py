"""A source of `progress`: what runs say of themselves, heard on a thread of its own and told at every beat."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent.source import Reading, Row
from agent.sources.processes.lineage import lives
from agent.sources.progress.mailbox import Letter, Mailbox
from agent.sources.progress.message import NUMBERS, Message, parse
from agent.sources.progress.sender_run import Whose
from agent.sources.progress.senders import Senders
from agent.sources.progress.totals import RunTotals

_LOG = logging.getLogger(__name__)
VARIABLE = "GPULEDGER_PROGRESS"
RUNS_MAX = 1024
_RUN_KEPT_SECONDS = 3600.0  # after its last word, so that a run that is started again goes on
_AT_ONCE_MAX = 50  # messages in WINDOW_SECONDS; the kernel's queue must hold the rest until it has passed, or refuse it
_WINDOW_SECONDS = 0.1


def _nowhere(_: bytes) -> None:
    """There is nobody else to tell."""


@dataclass(slots=True)
class Dropped:
    """Messages that were not heard, by why."""

    malformed: int = 0  # no JSON, no known key, a value that cannot be
    too_long: int = 0
    too_fast: int = 0
    unheard: int = 0  # another process of the same run is its voice, or another source counts this


class ProgressSource:
    """Hears the socket at `path` from the first reading on; rows of `progress`.

    `whose` says of which run a sender is. `columns` are the numbers that are taken, all unless another source counts
    one of them. `relay` is handed every message that is one. A run that has said something keeps a row, with nothing in
    it where it said nothing new, as long as a process of it lives that has ever said anything.
    """

    name = "progress"
    period_seconds = 0.0

    def __init__(
        self,
        path: Path,
        whose: Whose,
        proc: Path = Path("/proc"),
        columns: Collection[str] = tuple(NUMBERS.values()),
        relay: Callable[[bytes], None] = _nowhere,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.dropped = Dropped()
        self._lives = partial(lives, proc)
        self.senders = Senders(whose, self._lives)
        self._path = path
        self._columns = frozenset(columns)
        self._relay = relay
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._runs: dict[str, RunTotals] = {}
        self._mailbox: Mailbox | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._dropping = False

    def open(self) -> None:
        """Make the socket and hear it, if that is not yet done.

        Raises:
            SourceError: the socket cannot be made; the next reading tries again.
        """
        if self._mailbox is None and not self._closed.is_set():
            self._mailbox = Mailbox(self._path)
            self._thread = threading.Thread(target=self._hear, args=(self._mailbox,), name="progress", daemon=True)
            self._thread.start()

    def read(self) -> Reading:
        """Return what was said since the last reading.

        Raises:
            SourceError: the socket cannot be made.
        """
        self.open()
        with self._lock:
            if self._mailbox is not None:
                self._drain(self._mailbox)  # a command's last words, sent just before it ended
            self.senders.forget_the_dead()
            rows = self._rows(self.senders.runs(), self._monotonic())
        self._log_drops()
        return {"progress": rows}

    def close(self) -> None:
        """Stop hearing, and remove the socket."""
        self._closed.set()
        if self._mailbox is not None and self._thread is not None:
            self._mailbox.wake()
            self._thread.join()
            self._mailbox.close()

    def drops(self) -> Mapping[str, int]:
        """Return how many messages were not heard, by why."""
        drops = self.dropped
        return {
            "malformed": drops.malformed,
            "too_long": drops.too_long,
            "too_fast": drops.too_fast,
            "another_voice": drops.unheard,
            "unknown_sender": self.senders.unknown,
            "too_many_senders": self.senders.refused,
        }

    def _rows(self, living: Collection[str], now: float) -> list[Row]:
        rows: list[Row] = []
        for run_id, totals in list(self._runs.items()):
            said = totals.taken()
            if said or run_id in living:
                rows.append({"run_id": run_id, **said})
            elif run_id.startswith("process/") or now - totals.heard_at > _RUN_KEPT_SECONDS:
                del self._runs[run_id]
        return rows

    def _hear(self, mailbox: Mailbox) -> None:
        began, taken = self._monotonic(), 0
        while mailbox.wait() and not self._closed.is_set():
            with self._lock:
                taken += self._drain(mailbox)
            passed = self._monotonic() - began
            if taken >= _AT_ONCE_MAX and passed < _WINDOW_SECONDS:
                self._closed.wait(_WINDOW_SECONDS - passed)
            if taken >= _AT_ONCE_MAX or passed >= _WINDOW_SECONDS:
                began, taken = self._monotonic(), 0

    def _drain(self, mailbox: Mailbox) -> int:
        """Take what is there, AT_ONCE_MAX messages at most, and return how many."""
        taken = 0
        while taken < _AT_ONCE_MAX and (letter := mailbox.receive()) is not None:
            self._take(letter, self._monotonic())
            taken += 1
        return taken

    def _take(self, letter: Letter, now: float) -> None:
        if letter.content is None:
            self.dropped.too_long += 1
            return
        sender = self.senders.find(letter.pid, letter.uid, now)
        if sender is None:
            return
        if sender.is_too_fast(now):
            self.dropped.too_fast += 1
            return
        message = parse(letter.content)
        if message is None:
            self.dropped.malformed += 1
            return
        self._relay(letter.content)
        run = self._run(sender.attribution.run_id, now)
        if not run.hear(sender.identity, self._wanted(message), self._lives):
            self.dropped.unheard += 1

    def _wanted(self, message: Message) -> Message:
        totals = {column: total for column, total in message.totals.items() if column in self._columns}
        return Message(totals, message.checkpoint)

    def _run(self, run_id: str, now: float) -> RunTotals:
        run = self._runs.get(run_id)
        if run is None:
            if len(self._runs) >= RUNS_MAX:
                del self._runs[min(self._runs, key=lambda each: self._runs[each].heard_at)]
            run = self._runs[run_id] = RunTotals(now)
        run.heard_at = now
        return run

    def _log_drops(self) -> None:
        """Say it once, when it begins: whoever sends nonsense must not fill the log."""
        drops = {why: count for why, count in self.drops().items() if count and why != "another_voice"}
        if drops and not self._dropping:
            self._dropping = True
            _LOG.warning("messages of runs on %s are not heard (%s); counted, and not logged again", self._path, drops)
