"""The socket itself: anybody may send, nobody can speak as another, and nothing is left behind."""

import array
import os
import select
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.errors import SourceError
from agent.sources.mailbox import MESSAGE_BYTES_MAX, Letter, Mailbox
from tests.agent.sources.progress_hearing import say, us
from tests.waiting import until


@pytest.fixture
def mailbox(tmp_path: Path) -> Iterator[Mailbox]:
    """Return an open mailbox."""
    with closing(Mailbox(tmp_path / "progress.sock")) as opened:
        yield opened


def test_the_kernel_says_who_sent_it(mailbox: Mailbox) -> None:
    """What a message says of its sender could be anything."""
    pid, uid = us()
    say(mailbox.path, {"step": 1})
    assert mailbox.receive() == Letter(pid, uid, b'{"step": 1}')


def test_everyone_may_send(mailbox: Mailbox) -> None:
    """Runs are other users' processes."""
    assert stat.S_IMODE(mailbox.path.stat().st_mode) == 0o666


def test_a_long_message_is_known_as_one(mailbox: Mailbox) -> None:
    """Cut off, it might still look like JSON, and say something else."""
    say(mailbox.path, b"1" * (MESSAGE_BYTES_MAX + 1), b"")
    assert mailbox.receive() == Letter(*us(), None)
    assert mailbox.receive() == Letter(*us(), b""), "and an empty one does not end the hearing"


def test_who_waits_is_woken_at_the_end(tmp_path: Path) -> None:
    """The agent must end when it is told to, also where no run ever speaks."""
    mailbox = Mailbox(tmp_path / "progress.sock")
    say(mailbox.path, b"x")
    assert mailbox.wait()
    assert mailbox.receive() is not None
    assert mailbox.receive() is None
    waker = threading.Timer(0.05, mailbox.wake)
    waker.start()
    assert not mailbox.wait()
    waker.join()
    mailbox.close()


def test_files_sent_along_are_not_taken(mailbox: Mailbox) -> None:
    """Descriptors in a message would fill the agent's table of open files."""
    reading, writing = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        files = array.array("i", [writing] * 3)
        ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)], 0, str(mailbox.path))
    os.close(writing)
    assert not select.select([reading], [], [], 0)[0], "the message holds a writer still, or this shows nothing"
    assert mailbox.receive() == Letter(*us(), b"x")
    # Asked of what was sent alone: a pipe without writers is at its end. Who forks just now has all for a moment.
    until(lambda: select.select([reading], [], [], 0)[0], "nobody holds what was sent")
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_full_queue_refuses_at_once(mailbox: Mailbox) -> None:
    """A training loop must never wait for its accountant."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ours:
        ours.setblocking(False)
        ours.connect(str(mailbox.path))
        with pytest.raises(BlockingIOError):
            all(ours.send(b'{"step": 1}') for _ in range(100_000))


def test_what_a_killed_agent_left_is_replaced(tmp_path: Path) -> None:
    """kill -9 leaves the socket's file; the next agent must not need a hand."""
    path = tmp_path / "progress.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(path))
    with closing(Mailbox(path)) as mailbox:
        say(path, b"x")
        assert mailbox.receive() == Letter(*us(), b"x")
    assert not path.exists(), "and an agent that ends takes it away"


def test_two_agents_do_not_share_a_socket(mailbox: Mailbox) -> None:
    """The second would take the first one's messages, and nobody would know."""
    with pytest.raises(SourceError, match="another agent listens on"):
        Mailbox(mailbox.path)
    say(mailbox.path, b"x")
    assert mailbox.receive() is not None, "the first one still hears"


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    """A slip in the settings must not cost somebody a file."""
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(SourceError, match="is not a socket"):
        Mailbox(path)
    assert path.read_text() == "mine"


def test_a_directory_that_all_may_write_is_refused(tmp_path: Path) -> None:
    """There anybody could put a socket in the agent's place, and read what runs say."""
    tmp_path.chmod(0o777)
    with pytest.raises(SourceError, match="chmod o-w"):
        Mailbox(tmp_path / "progress.sock")


def test_a_path_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    """A unix socket's path has 107 characters at most; the way out is in the message."""
    with pytest.raises(SourceError, match=r"too long.*set agent\.progress"):
        Mailbox(tmp_path / ("x" * 200))
