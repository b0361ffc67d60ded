"""The socket that runs send to: datagrams on a path, with the sender's process and user as the kernel knows them."""

import contextlib
import select
import socket
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from agent.errors import SourceError
from agent.wire.bounded import json_said

# One message of a run: `{"step": 120, "tokens": 1048576, "data_wait_seconds": 3.25, "checkpoint": "ckpt-1200"}`.
#
# Every number is a total, of the run since any moment it likes: what counts is by how much it grows. A message that is
# lost then costs nothing, and a run that goes on from a checkpoint says so by where it begins.
MESSAGE_BYTES_MAX = 4096
NAME_CHARACTERS_MAX = 128  # of a checkpoint
TOTAL_MAX = 2**53  # beyond it a number of JSON is not whole any more
MEASURED_MAX = 1e9  # seconds; what grew by more is refused where it arrives

NUMBERS = {
    "step": "steps",
    "samples": "samples",
    "tokens": "tokens",
    "requests": "requests",
    "data_wait_seconds": "data_wait_seconds",
}  # of a message: the column
_MEASURED = frozenset({"data_wait_seconds"})  # all others are counted, and whole


@dataclass(frozen=True, slots=True)
class Message:
    """What a run said at one moment: totals by column, and the checkpoint that is complete now."""

    totals: Mapping[str, int | float]
    checkpoint: str | None


def parse(line: bytes) -> Message | None:
    """Return what one message says, or None where it is not one, or says nothing that is known.

    Keys that are not known are passed over, so that a newer run can talk to an older agent; a known key with a value
    that it cannot have spoils the message, since its other numbers are then no better. Pure, and safe on any bytes.
    """
    if len(line) > MESSAGE_BYTES_MAX:
        return None
    try:
        said = json_said(line, parse_constant=_no_number)
        return _message(said) if isinstance(said, dict) else None
    except ValueError:
        return None


def _message(said: Mapping[str, Any]) -> Message | None:
    given_totals = {column: said[key] for key, column in NUMBERS.items() if said.get(key) is not None}
    totals = {
        column: _measured(total) if column in _MEASURED else _total(total) for column, total in given_totals.items()
    }
    given = said.get("checkpoint")
    checkpoint = None if given is None else _name(given)
    return Message(totals, checkpoint) if totals or checkpoint else None


def _total(value: object) -> int:
    """Return a total; 1e6 is whole, and some languages write it so."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= TOTAL_MAX:
        raise ValueError("not a total")
    return value


def _measured(value: object) -> float:
    """Return a total of something that is measured, in its unit."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MEASURED_MAX:
        raise ValueError("not a total")
    return float(value)


def _name(value: object) -> str:
    """Return a checkpoint's name: the last part of its path, since the path may name its owner."""
    if not isinstance(value, str):
        raise ValueError("not a name")
    name = value.rstrip("/").rpartition("/")[2]
    if not name or not name.isprintable() or len(name) > NAME_CHARACTERS_MAX:
        raise ValueError("not a name")
    return name


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_EVERYONE_MAY_WRITE = 0o666  # to the socket; whose message it is the kernel says
_OVER = select.POLLHUP | select.POLLERR | select.POLLNVAL
_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid


@dataclass(frozen=True, slots=True)
class Letter:
    """One message as it came; `content` is None where it was longer than any may be. pid 0 is no process of ours."""

    pid: int
    uid: int
    content: bytes | None


class Mailbox:
    """A bound datagram socket. Nobody who sends to it is ever kept waiting: where its queue is full, sending fails.

    Raises:
        SourceError: it cannot be made, or another agent listens on the path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(mode=0o755, exist_ok=True)
            _check_directory(path.parent)
            _remove_stale(path)
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        except OSError as error:
            raise SourceError(_cannot(path, error)) from error
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.bind(str(path))
            path.chmod(_EVERYONE_MAY_WRITE)
        except OSError as error:
            self._socket.close()
            raise SourceError(_cannot(path, error)) from error
        self._inode = path.stat().st_ino
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def wait(self) -> bool:
        """Wait for a message; return False once it is over."""
        return not any(event & _OVER for _, event in self._poll.poll())

    def receive(self) -> Letter | None:
        """Return the next message, or None where none is there."""
        # Room for the credentials alone: files that somebody sends along are then closed by the kernel.
        room, flags = socket.CMSG_SPACE(_CREDENTIALS.size), socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            content, ancillary, told, _ = self._socket.recvmsg(MESSAGE_BYTES_MAX, room, flags)
        except OSError:
            return None
        if not ancillary:  # what a socket that was shut down gives
            return None
        pid, uid = 0, 0
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
        return Letter(pid, uid, None if told & socket.MSG_TRUNC else content)

    def wake(self) -> None:
        """Let whoever waits go; from now on nothing comes any more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it, and take the socket's file away if it is still ours."""
        self.wake()
        self._socket.close()
        with contextlib.suppress(OSError):
            if self.path.stat().st_ino == self._inode:
                self.path.unlink()


def _check_directory(directory: Path) -> None:
    mode = directory.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise SourceError(
            f"{directory} is writable by everyone, so anyone could put a socket there; chmod o-w {directory}"
        )


def _remove_stale(path: Path) -> None:
    """Remove what an agent that was killed left behind; leave alone what is in use, or no socket."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found):
        raise SourceError(f"{path} exists and is not a socket; remove it, or set agent.progress to another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise SourceError(f"another agent listens on {path}; stop it, or set agent.progress to another path")


def _cannot(path: Path, error: OSError) -> str:
    return f"cannot listen on {path} ({error.strerror or error}); make its directory the agent's, or set agent.progress"
