"""What runs say themselves: steps, tokens, waits for data, checkpoints, …; GPULEDGER_PROGRESS names the socket."""

import contextlib
import logging
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent.attribution.evidence import Identity, Process, user_name
from agent.attribution.run import Attribution
from agent.errors import SourceError
from agent.source import Reading, Row, Value
from agent.sources.mailbox import NUMBERS, Letter, Mailbox, Message, parse
from agent.sources.process_table import lineage, lives, process_of, read_stat

# Whose run a sender's process is, by what the kernel says of it. What a message says of its run decides nothing.
Whose = Callable[[int, int], tuple[Identity, Attribution] | None]  # of a pid and a user


class HostRuns:
    """Knows the processes of this host. `run_of` says whose run one is, `holders` which of them hold a GPU."""

    def __init__(
        self, proc: Path, run_of: Callable[[Process], Attribution], holders: Callable[[], Collection[int]]
    ) -> None:
        self._proc = proc
        self._run_of = run_of
        self._holders = holders

    def __call__(self, pid: int, uid: int) -> tuple[Identity, Attribution] | None:
        """Return a process and its run, or None where this user has no such process that /proc shows."""
        line = lineage(self._proc, pid)
        process = process_of(self._proc, line)
        if process is None or process.owner != user_name(uid):
            return None
        return line[0], self._attribution(line, process)

    def _attribution(self, line: Sequence[Identity], process: Process) -> Attribution:
        """Return the run of a process: of the topmost holder of a GPU above it where no scheduler knows it.

        The GPU is booked to that process, and its children speak of its work. Another user's process above it, a
        daemon that starts things for everybody, is not asked.
        """
        own = self._run_of(process)
        if own.scheduler != "process":
            return own
        holders = self._holders()
        for place in reversed([place for place, (pid, _) in enumerate(line) if pid in holders]):
            above = process_of(self._proc, line[place:])
            if above is not None and above.owner == process.owner:
                return self._run_of(above)
        return own


def one_run(run_id: str, proc: Path) -> Whose:
    """Return what says of every process that it is of this run: for a socket that nobody else can reach.

    So the last word of a command is heard that has ended before it was read.
    """

    def whose(pid: int, _: int) -> tuple[Identity, Attribution]:
        stat = read_stat(proc, pid)
        return (pid, 0 if stat is None else stat.started_ticks), Attribution(run_id, "declared")

    return whose


# The processes that send, each looked at once and not at every message, and kept within bounds.
_SENDERS_MAX = 1024
OF_ONE_USER_MAX = 64
MESSAGES_PER_SECOND = 20  # of one sender; more are not looked at
_ASKED_AGAIN_SECONDS = 60.0  # of a sender that no scheduler knows: it may hold a GPU by then


@dataclass(slots=True)
class Sender:
    """A process that sends, and how many messages it has sent in the second that runs."""

    identity: Identity
    attribution: Attribution
    asked_at: float
    second: int = 0
    messages: int = 0

    def is_too_fast(self, now: float) -> bool:
        """Count a message; return whether it is one too many in this second."""
        if self.second != int(now):
            self.second, self.messages = int(now), 0
        self.messages += 1
        return self.messages > MESSAGES_PER_SECOND


class Senders:
    """The processes that have sent something and live. Times are monotonic seconds.

    `refused` counts messages of those that were too many; `unknown` of those that /proc does not show: ended already,
    hidden, or in a PID namespace that the agent does not see.
    """

    def __init__(self, whose: Whose, lives: Callable[[Identity], bool]) -> None:
        self.refused = 0
        self.unknown = 0
        self._whose = whose
        self._lives = lives
        self._known: dict[tuple[int, int], Sender] = {}  # by pid and user

    def find(self, pid: int, uid: int, now: float) -> Sender | None:
        """Return the sender of these credentials, or None where it cannot be known or is one too many."""
        known = self._known.get((pid, uid))
        if known is not None and not _is_to_be_asked_again(known, now):
            return known
        if known is None and not self._has_room_for(uid):
            self.refused += 1
            return None
        found = self._whose(pid, uid)
        if found is None:
            self.unknown += 1
            return None
        identity, attribution = found
        if known is None or known.identity != identity:
            known = self._known[pid, uid] = Sender(identity, attribution, now)
        known.attribution, known.asked_at = attribution, now
        return known

    def forget_the_dead(self) -> None:
        """Forget the senders that have ended."""
        self._known = {key: sender for key, sender in self._known.items() if self._lives(sender.identity)}

    def runs(self) -> set[str]:
        """Return the runs of which a sender is known."""
        return {sender.attribution.run_id for sender in self._known.values()}

    def _has_room_for(self, uid: int) -> bool:
        if self._is_full_for(uid):
            self.forget_the_dead()
        return not self._is_full_for(uid)

    def _is_full_for(self, uid: int) -> bool:
        return len(self._known) >= _SENDERS_MAX or sum(user == uid for _, user in self._known) >= OF_ONE_USER_MAX


def _is_to_be_asked_again(sender: Sender, now: float) -> bool:
    return sender.attribution.scheduler == "process" and now - sender.asked_at > _ASKED_AGAIN_SECONDS


# How far the totals of one run have grown since they were last told, whoever of its processes says them.
@dataclass(slots=True)
class RunTotals:
    """One run. Of each number one process is the voice, the first that says it, until that process has ended.

    Eight ranks that each say the step 120 have not done 960. So the voice is taken to speak for the whole run, and the
    others are not heard; `heard_at` is when it last said anything, in monotonic seconds.
    """

    heard_at: float
    _voices: dict[str, Identity] = field(default_factory=dict)
    _last: dict[str, int | float] = field(default_factory=dict)
    _grown: dict[str, int | float] = field(default_factory=dict)
    _checkpoint: str | None = None

    def hear(self, speaker: Identity, message: Message, lives: Callable[[Identity], bool]) -> bool:
        """Take a message; return whether any of it was heard.

        A total that grew adds its growth; one that fell begins anew and adds nothing, as the first one does: the run
        goes on from a checkpoint, or another process counts from another beginning.
        """
        heard = False
        for column, total in message.totals.items():
            voice = self._voices.get(column, speaker)
            if voice != speaker and lives(voice):
                continue
            heard, self._voices[column] = True, speaker
            if (before := self._last.get(column)) is not None:
                self._grown[column] = self._grown.get(column, 0) + max(0, total - before)
            self._last[column] = total
        if message.checkpoint is not None:
            heard, self._checkpoint = True, message.checkpoint
        return heard

    def taken(self) -> Row:
        """Return what was said since the last time this was asked; what was not is unknown, never 0."""
        row: dict[str, Value] = {**self._grown}
        if self._checkpoint is not None:
            row["checkpoint"] = self._checkpoint
        self._grown, self._checkpoint = {}, None
        return row


_LOG = logging.getLogger(__name__)
VARIABLE = "GPULEDGER_PROGRESS"
RUNS_MAX = 1024
_RUN_KEPT_SECONDS = 3600.0  # after its last word, so that a run that is started again goes on
_AT_ONCE_MAX = 50  # messages in WINDOW_SECONDS; the kernel's queue must hold the rest until it has passed, or refuse it
_WINDOW_SECONDS = 0.1


def _nowhere(_: bytes) -> None:
    """There is nobody else to tell."""


# Why a message is not heard: no JSON, no known key, or a value that cannot be; too long; too many in a second; another
# process of the same run is its voice, or another source counts this.
_DROPPED = ("malformed", "too_long", "too_fast", "another_voice")


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
        self._dropped = Counter(dict.fromkeys(_DROPPED, 0))
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
        senders = {"unknown_sender": self.senders.unknown, "too_many_senders": self.senders.refused}
        return self._dropped | senders

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
            self._dropped["too_long"] += 1
            return
        sender = self.senders.find(letter.pid, letter.uid, now)
        if sender is None:
            return
        if sender.is_too_fast(now):
            self._dropped["too_fast"] += 1
            return
        message = parse(letter.content)
        if message is None:
            self._dropped["malformed"] += 1
            return
        self._relay(letter.content)
        run = self._run(sender.attribution.run_id, now)
        if not run.hear(sender.identity, self._wanted(message), self._lives):
            self._dropped["another_voice"] += 1

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
            _LOG.warning("messages of runs on %s are ignored (%s); counted, and not logged again", self._path, drops)


class OwnProgress:
    """Opens a socket in a directory that is ours alone. `source` is None where none can be had: the run goes on.

    What the run says is handed on to `agent` too, the socket of an agent on this host, where it would have been said.
    """

    def __init__(self, run_id: str, proc: Path, columns: Collection[str], agent: Path | None) -> None:
        self.source: ProgressSource | None = None
        self.environment: dict[str, str] = {}  # what the command is told
        self._directory: str | None = None
        self._onward = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._onward.setblocking(False)
        try:
            self._directory = tempfile.mkdtemp(prefix="gpuledger-")
            path = Path(self._directory) / "progress.sock"
            source = ProgressSource(path, one_run(run_id, proc), proc, columns, self._to(agent))
            source.open()
        except (OSError, SourceError) as error:
            _LOG.warning("the run cannot report its progress: %s", error)
        else:
            self.source, self.environment = source, {VARIABLE: str(path)}

    def close(self) -> None:
        """Remove the socket and its directory."""
        if self.source is not None:
            self.source.close()
        self._onward.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _to(self, agent: Path | None) -> Callable[[bytes], None]:
        def relay(message: bytes) -> None:
            with contextlib.suppress(OSError):  # no agent, or it is busy
                self._onward.sendto(message, str(agent))

        return relay if agent is not None else lambda _: None
