"""The socket that runs send to: datagrams on a path, with the sender's process and user as the kernel knows them."""

import contextlib
import select
import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from agent.errors import SourceError
from agent.sources.progress.message import MESSAGE_BYTES_MAX

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
            f"{directory} may be written by everyone, who could put a socket there; chmod o-w {directory}"
        )


def _remove_stale(path: Path) -> None:
    """Remove what an agent that was killed left behind; leave alone what is in use, or no socket."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found):
        raise SourceError(f"{path} is there and is no socket; remove it, or set agent.progress elsewhere")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise SourceError(f"another agent listens on {path}; stop it, or set agent.progress elsewhere")


def _cannot(path: Path, error: OSError) -> str:
    return f"cannot listen on {path} ({error.strerror or error}); make its directory the agent's, or set agent.progress"
