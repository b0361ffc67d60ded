"""Run a command as if we were not there: its streams, its signals, its exit code, its terminal.

The command stays in our process group, so that the terminal and the scheduler treat it as before. What the terminal
sends (Ctrl-C, Ctrl-Z) reaches the whole group and is not sent twice; what is sent to us alone is passed on. The two
are told apart by the signal's si_code, which a handler of Python never sees: so signals are blocked and waited for.
"""

import contextlib
import logging
import os
import re
import select
import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from agent.errors import AgentError, ConfigError
from agent.source import Reading
from agent.sources.mailbox import MEASURED_MAX
from agent.wire.bounded import as_seen, number_said
from agent.wire.units import KIB

_LOG = logging.getLogger(__name__)

_FORWARDED = frozenset({
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT, signal.SIGUSR1,
    signal.SIGUSR2,
})  # fmt: skip
_WAITED_FOR = _FORWARDED | {signal.SIGCHLD}
_SI_KERNEL = 0x80  # asm-generic/siginfo.h: sent by the kernel, as the terminal's signals are
_STOPPED_BY_TERMINAL = frozenset(
    {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
)  # not SIGSTOP: that is somebody's will
_SIGNALLED = 128
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


STDERR = 2
_SAY_MS = 2000  # a reader of stderr that has stopped is waited for so long, once


class Stderr:
    """Our words on stderr, which may be full, broken, closed or not read: what cannot be said is left out.

    `print` would raise, write to stdout instead, or wait for ever, and each of them would reach the command.
    """

    def __init__(self) -> None:
        self._given_up = False

    def write(self, text: str) -> None:
        """Say a text. The descriptor is written to: a buffer would be flushed again when the process ends."""
        rest = text.encode(errors="replace")
        while rest and not self._given_up:
            try:
                rest = rest[self._written(rest[: select.PIPE_BUF]) :]
            except OSError:
                self._given_up = True

    def flush(self) -> None:
        """Nothing is kept."""

    def _written(self, part: bytes) -> int:
        poll = select.poll()
        poll.register(STDERR, select.POLLOUT)
        if not poll.poll(_SAY_MS):
            raise BlockingIOError("nobody reads stderr")
        return os.write(STDERR, part)


def hold_closed_streams() -> None:
    """Open what is closed of stdin, stdout and stderr, for us alone: the command finds it closed, as it was.

    Else the next file that we open has its number, and the command would write its words into our recording.
    """
    for stream in range(STDERR + 1):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, not inherited by what we start


class CommandError(AgentError):
    """The command cannot be started. `code` is what a shell would exit with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code

    @classmethod
    def of_start(cls, program: str, error: OSError) -> "CommandError":
        """Return what a shell would make of a program that cannot be started."""
        if isinstance(error, FileNotFoundError):
            return cls(f"command not found: {program!r}", _NOT_FOUND)
        return cls(f"cannot run {program!r}: {error.strerror}", _NOT_EXECUTABLE)


_COMMAND_CHARACTERS = 120  # of the command's words; they stay in the recording, on this machine
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID")  # torchrun, srun


def reports_here(environment: Mapping[str, str]) -> bool:
    """Return whether this process reports for its node, where a launcher has started one for each GPU."""
    return all(environment.get(name, "0") == "0" for name in _LOCAL_RANKS)


def spoken(words: Sequence[str]) -> str:
    """Return a command as a person would type it, in one line and shortened."""
    text = " ".join(shlex.join(words).split())
    return text if len(text) <= _COMMAND_CHARACTERS else f"{text[: _COMMAND_CHARACTERS - 1]}…"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it and its processes used: seconds of CPU, and the largest one's memory."""

    exit_code: int
    cpu_seconds: float
    rss_bytes: int


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold back signals in this thread and in all that it starts, so that `wait` can take them.

    What arrived after the command had ended was meant for the command, and is dropped.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it came to us ignored, no child would leave a status
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
    try:
        yield
    finally:
        while signal.sigtimedwait(_WAITED_FOR, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(command: Sequence[str], environment: Mapping[str, str], redirect: Mapping[int, int] | None = None) -> int:
    """Start the command with our own streams and return its pid; `redirect` gives it other ones, ours by its number.

    To be called with signals held; the command begins with none held, and with those ignored that we found ignored.

    Raises:
        CommandError: there is no such command, or it may not be run.
    """
    actions = [(os.POSIX_SPAWN_DUP2, ours, its) for its, ours in (redirect or {}).items()]
    try:
        return os.posix_spawnp(
            command[0],
            list(command),
            dict(environment),
            file_actions=actions,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores both, and a command must not inherit that
        )
    except OSError as error:
        raise CommandError.of_start(command[0], error) from error


def wait(pid: int, stop_ourselves: Callable[[], None] | None = None) -> Ended:
    """Pass signals on until the command has ended. To be called with signals held.

    Where the command stops (Ctrl-Z, or reading the terminal from the background), we stop too, so that the shell has
    its terminal back; the SIGCONT of `fg` wakes both.
    """
    while True:
        told = signal.sigwaitinfo(_WAITED_FOR)
        if told.si_signo != signal.SIGCHLD:
            if told.si_code != _SI_KERNEL:
                _send(pid, told.si_signo)
            continue
        seen = _reap(pid)
        if isinstance(seen, Ended):
            return seen
        if seen == "stopped":
            (stop_ourselves or _stop_ourselves)()


def _stop_ourselves() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended, and its SIGCHLD is on its way
        os.kill(pid, number)


def _reap(pid: int) -> Ended | Literal["stopped"] | None:
    """Take the status of every child that has one: as process 1 of a container we inherit strangers too."""
    seen: Ended | Literal["stopped"] | None = None
    while True:
        try:
            child, status, used = os.wait4(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return seen
        if child == 0:
            return seen
        if child == pid and os.WIFSTOPPED(status):
            seen = "stopped" if os.WSTOPSIG(status) in _STOPPED_BY_TERMINAL else None
        elif child == pid:
            code = os.waitstatus_to_exitcode(status)
            exit_code = code if code >= 0 else _SIGNALLED - code
            seen = Ended(exit_code, used.ru_utime + used.ru_stime, used.ru_maxrss * KIB)


# How far the numbers that a command prints take it, whoever of its processes prints them.
_RANK = re.compile(rb"\brank[ :=_-]?(\d{1,6})\b|^\[default(\d{1,6})\]:", re.IGNORECASE)
_TOTAL = re.compile(rb"\s*/\s*([\d,_.e+]{1,40})")
_SEQUENCES_MAX = 4096
_QUIET_NUMBERS = 64  # eight ranks that are eight steps apart
_REPEATED_NUMBERS = 6
_Sequence = tuple[int | None, float | None]  # which rank prints, and of how many


@dataclass(slots=True)
class _Bar:
    """Numbers that grow: the first, the highest, the longest stride, how many there were, and what of them is counted.

    `is_clean`: nothing else was printed between them.
    """

    first: float
    highest: float
    stride: float = 0.0
    numbers: int = 1
    counted: float = 0.0
    is_clean: bool = True

    def grow(self, number: float) -> None:
        self.stride = max(self.stride, number - self.highest)
        self.highest, self.numbers = number, self.numbers + 1

    @property
    def length(self) -> float:
        return self.highest - self.first

    def repeats(self, other: "_Bar") -> bool:
        """Return whether it went all the way that another did, by itself."""
        return self.is_clean and self.numbers >= _REPEATED_NUMBERS and self.length >= other.length - other.stride


class StepNumbers:
    """One sequence of printed numbers. Counting begins with the first, since a run may go on from a checkpoint.

    The highest counts, since a lagging rank and a bar between two others (an evaluation's) print lower ones. A bar that
    begins again counts as well: at once where the one before had come to its end, else when it has gone the same way,
    or half of it with nothing of the other for a while. Where the one before goes on after all, what was counted of the
    other is taken off what comes.
    """

    def __init__(self) -> None:
        self.counted = 0.0
        self._bars: list[_Bar] = []  # the current one last, before it the one that it began after
        self._again: _Bar | None = None
        self._quiet = 0  # numbers since the current bar went on

    def take(self, number: float, total: float | None = None) -> None:
        """Count one number, of `total` where the line says it."""
        if not self._bars:
            self._bars.append(_Bar(number, number))
            return
        bar, again = self._bars[-1], self._again
        self._quiet += 1
        if number > bar.highest:
            self._go_on(number)
        elif again is None or number <= again.first:
            self._fall(number, total)
        elif number > again.highest:
            again.grow(number)
            if again.length >= bar.length / 2 and self._quiet >= _QUIET_NUMBERS:
                self._begin_again(again)
        else:
            again.is_clean = False

    def settle(self) -> None:
        """Count what began again and has not gone far: no more will come."""
        if self._again is not None and self._again.length >= self._bars[-1].length / 2:
            self._begin_again(self._again)

    def _fall(self, number: float, total: float | None) -> None:
        bar, again = self._bars[-1], self._again
        if again is not None and again.repeats(bar):
            self._begin_again(again)
            bar = again
        if number < bar.highest and number <= bar.first:
            is_alone = again is None or number < again.first or again.numbers > 1
            self._again = _Bar(number, number, is_clean=is_alone)
            if total is not None and bar.highest >= total:
                self._begin_again(self._again)
        elif again is not None:
            again.is_clean = False

    def _begin_again(self, again: _Bar) -> None:
        self._bars, self._again, self._quiet = [self._bars[-1], again], None, 0
        again.counted = again.length
        self.counted += again.counted

    def _go_on(self, number: float) -> None:
        bar, again = self._bars[-1], self._again
        if again is not None and again.repeats(bar) and number - again.highest <= again.stride:
            self._begin_again(again)
            bar = again
        self._again, self._quiet, former = None, 0, self._bars[0]
        if former is not bar and number > former.highest > bar.highest and number - bar.highest > bar.stride:
            self.counted -= bar.counted
            self._bars, bar = [former], former
        self.counted += number - bar.highest
        bar.counted += number - bar.highest
        bar.grow(number)


# Count a command's steps in what it prints, passing every byte on: `gpuledger run --steps-from RE`.
#
# The command then writes to a pipe instead of our own stdout and stderr, which is why this is asked for and not usual.
_CHUNK_BYTES = 65536
_MAX_LINE_BYTES = 65536  # a longer line is searched in parts
_STREAMS = (1, 2)  # stdout and stderr: progress bars use either
WAIT = "wait"  # the group of the pattern that says how many seconds each of a line's steps waited for data


def step_pattern(given: str) -> re.Pattern[bytes]:
    """Return the pattern that marks a step: each match is one, or says its number in the group `step`, or the first.

    A group named `wait` says how many seconds a step waited for data; it is not the first for that.

    Raises:
        ConfigError: it is no regular expression, or an empty one.
    """
    try:
        pattern = re.compile(given.encode())
    except re.error as error:
        raise ConfigError(f"--steps-from {given!r} is not a valid regular expression: {error}") from error
    if pattern.match(b""):
        raise ConfigError(
            f"--steps-from {given!r} matches an empty line; use a pattern that only a step's line matches"
        )
    return pattern


def counted_columns(pattern: re.Pattern[bytes] | None) -> frozenset[str]:
    """Return the columns of `progress` that are read from what the command prints; none without a pattern."""
    if pattern is None:
        return frozenset()
    return frozenset({"steps", "data_wait_seconds"} if WAIT in pattern.groupindex else {"steps"})


class StepCounter:
    """Copies two streams and counts steps in them; a source of `progress` for the run."""

    name = "progress"
    period_seconds = 0.0

    def __init__(self, run_id: str, pattern: re.Pattern[bytes]) -> None:
        self._run_id = run_id
        self._pattern = pattern
        self._lock = threading.Lock()
        self._steps = 0
        self._lines = 0  # that are a step each
        self._sequences: dict[_Sequence, StepNumbers] = {}
        self._unread, self._unread_example = 0, ""
        self._waited_seconds: float | None = None  # since the last reading, where a line said it
        self._told: int | None = None
        self._ends: dict[int, int] = {}
        self._threads: list[threading.Thread] = []

    def open(self) -> dict[int, int]:
        """Make the pipes; return which of the command's streams is which of our descriptors."""
        for stream in _STREAMS:
            reading, self._ends[stream] = os.pipe()
            copier = threading.Thread(target=self._copy, args=(reading, stream), name=f"copy {stream}", daemon=True)
            self._threads.append(copier)
        return dict(self._ends)

    def begin(self) -> None:
        """Copy, once the command has its ends of the pipes."""
        for end in self._ends.values():
            os.close(end)
        for copier in self._threads:
            copier.start()

    def finish(self, timeout_seconds: float) -> None:
        """Wait for the last bytes. A process that the command left behind may hold the pipes for longer."""
        for copier in self._threads:
            copier.join(timeout_seconds)
        if self._unread:
            _LOG.warning(
                "--steps-from found %d lines whose number cannot be read, such as %r; they are not counted",
                self._unread,
                self._unread_example,
            )

    def read(self) -> Reading:
        """Return the steps since the last reading, and how long they waited for data where the lines say it."""
        with self._lock:
            steps, told, self._told = self._steps, self._told, self._steps
            waited, self._waited_seconds = self._waited_seconds, None
        row = {} if told is None else {"steps": steps - told, "data_wait_seconds": waited}
        return {"progress": [{"run_id": self._run_id, **row}]}

    def _copy(self, reading: int, stream: int) -> None:
        line = b""
        while (chunk := os.read(reading, _CHUNK_BYTES)) and _write(stream, chunk):
            *whole, line = re.split(rb"[\r\n]", line + chunk)
            self._count(whole)
            if len(line) > _MAX_LINE_BYTES:
                self._count([line])
                line = b""
        self._count([line])
        with self._lock:
            for each in self._sequences.values():
                each.settle()
            self._steps += self._growth()
        os.close(reading)

    def _count(self, lines: list[bytes]) -> None:
        with self._lock:
            for match in filter(None, map(self._pattern.search, map(as_seen, lines))):
                steps = self._advance(match)
                self._steps += steps
                if steps and (waited := _wait_seconds(match)) is not None:
                    self._waited_seconds = (self._waited_seconds or 0.0) + steps * waited

    def _advance(self, match: re.Match[bytes]) -> int:
        """Return how far a line takes the run: one step, or up to the number that it names.

        Each rank that names itself, and each length of a bar, is a sequence of its own; the longest of them counts.
        """
        wait = match.re.groupindex.get(WAIT)
        named = match.re.groupindex.get("step")
        places = [named] if named else [place for place in range(1, match.re.groups + 1) if place != wait]
        place = next((place for place in places if match[place] is not None), None)
        if place is None:
            self._lines += 1
        else:
            self._take(match, place)
        return self._growth()

    def _growth(self) -> int:
        counted = max((each.counted for each in self._sequences.values()), default=0.0)
        return max(0, self._lines + int(counted) - self._steps)

    def _take(self, match: re.Match[bytes], place: int) -> None:
        number = number_said(match[place].decode("utf-8", "replace"))
        if number is None:
            self._unread, self._unread_example = self._unread + 1, match[place][:40].decode("utf-8", "replace")
            return
        total = _TOTAL.match(match.string, match.end(place))
        of = number_said(total[1].decode()) if total else None
        rank = _RANK.search(match.string, 0, match.start(place))
        sequence: _Sequence = (int(rank[1] or rank[2]) if rank else None, of)
        if sequence in self._sequences or len(self._sequences) < _SEQUENCES_MAX:
            self._sequences.setdefault(sequence, StepNumbers()).take(number, of)


def _wait_seconds(match: re.Match[bytes]) -> float | None:
    """Return how long a step of this line waited for data, where the line says it."""
    if WAIT not in match.re.groupindex:
        return None
    try:
        seconds = float(match[WAIT] or b"")
    except ValueError:
        return None
    return seconds if 0 <= seconds <= MEASURED_MAX else None


def _write(stream: int, chunk: bytes) -> bool:
    """Write it all; return whether somebody reads. Where nobody does, the command's pipe is closed, as ours is."""
    while chunk:
        try:
            chunk = chunk[os.write(stream, chunk) :]
        except BrokenPipeError:
            return False
    return True
