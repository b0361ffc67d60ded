"""systemd hears when the server is ready, that its loop turns, and when it ends."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from collector.http.server import SOCKET, WATCHDOG, Supervisor
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]


@contextmanager
def manager(address: str) -> Iterator[socket.socket]:
    """Listen as systemd does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address)
        listening.settimeout(PATIENCE_SECONDS)
        yield listening


def test_the_server_says_ready_alive_and_stopping(tmp_path: Path) -> None:
    """READY only once the port listens, WATCHDOG from the event loop, STOPPING with the time that it may take."""
    address = str(tmp_path / "notify")
    environment = os.environ | {SOCKET: address, WATCHDOG: "300000", "PYTHONPATH": str(ROOT)}
    flags = ["--store", str(tmp_path / "store.duckdb"), "--listen", "127.0.0.1:0"]
    code = "import sys; from tests.collector.alone import serve; sys.exit(serve(sys.argv[1:]))"
    with manager(address) as listening:
        process = subprocess.Popen([sys.executable, "-c", code, *flags], env=environment)
        try:
            assert listening.recv(4096).startswith(b"READY=1\n")
            assert [listening.recv(4096) for _ in range(2)] == [b"WATCHDOG=1"] * 2
            process.send_signal(signal.SIGTERM)
            said = b"WATCHDOG=1"
            while said == b"WATCHDOG=1":
                said = listening.recv(4096)
            assert said.startswith(b"STOPPING=1\nEXTEND_TIMEOUT_USEC=")
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()


def test_an_abstract_socket_is_understood(tmp_path: Path) -> None:
    """Containers get one: its name begins with @, and on the socket with a null byte."""
    name = f"gpuledger-test-{os.getpid()}"
    with manager(f"\0{name}") as listening:
        Supervisor({SOCKET: f"@{name}"}).tell("READY=1")
        assert listening.recv(100) == b"READY=1"


@pytest.mark.parametrize("environment", [{}, {SOCKET: ""}, {SOCKET: "/nowhere/at/all"}, {WATCHDOG: "1000"}])
def test_without_a_manager_nothing_is_said_and_nothing_fails(environment: dict[str, str]) -> None:
    """It runs the same in a terminal and in a container."""
    supervisor = Supervisor(environment)
    supervisor.tell("READY=1")
    assert supervisor.feed_seconds is None
