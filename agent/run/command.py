"""Run a command as if we were not there: its streams, its signals, its exit code, its terminal.

The command stays in our process group, so that the terminal and the scheduler treat it as before. What the terminal
sends (Ctrl-C, Ctrl-Z) reaches the whole group and is not sent twice; what is sent to us alone is passed on. The two
are told apart by the signal's si_code, which a handler of Python never sees: so signals are blocked and waited for.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from agent.errors import AgentError
from agent.wire.units import KIB

_FORWARDED = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGTSTP,
        signal.SIGCONT,
        signal.SIGUSR1,
        signal.SIGUSR2,
    }
)
_WAITED_FOR = _FORWARDED | {signal.SIGCHLD}
_SI_KERNEL = 0x80  # asm-generic/siginfo.h: sent by the kernel, as the terminal's signals are
_STOPPED_BY_TERMINAL = frozenset(
    {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
)  # not SIGSTOP: that is somebody's will
_SIGNALLED = 128
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class CommandError(AgentError):
    """The command cannot be started. `code` is what a shell would exit with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


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
    except FileNotFoundError as error:
        raise CommandError(f"there is no command {command[0]!r}", NOT_FOUND) from error
    except OSError as error:
        raise CommandError(f"cannot run {command[0]!r}: {error.strerror}", NOT_EXECUTABLE) from error


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
