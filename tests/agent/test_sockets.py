"""What a security review asks first: whom does it call, and who can call it?

Every socket call of Python is told to an audit hook before it is made (PEP 578), so that none is missed between two
looks; what the kernel knows of the process afterwards must agree.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.agent.receiver import Receiver
from tests.waiting import until

ROOT = Path(__file__).parent.parent.parent
LOOPBACK = "127.0.0.1"

WITNESS = """
import json, sys
told = open(sys.argv[1], "a", buffering=1)

NETWORK = ("socket.connect", "socket.bind", "socket.sendto")
OTHERS = ("socket.getaddrinfo", "socket.gethostbyname", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")

def hook(event, arguments):
    if event in NETWORK:  # the first argument is the socket itself
        told.write(json.dumps([event, repr(arguments[1:])]) + chr(10))
    elif event in OTHERS:
        told.write(json.dumps([event, repr(arguments[:2])]) + chr(10))
    elif event == "open" and str(arguments[0]) == "/proc/meminfo":  # a look at the host
        told.write(json.dumps(["look", ""]) + chr(10))

sys.addaudithook(hook)
from gpuledger import main
sys.exit(main(sys.argv[2:]))
"""


class Watched:
    """One agent whose socket calls are all written down."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self._told = directory / "told.jsonl"
        self._told.touch()
        line = [sys.executable, "-c", WITNESS, str(self._told), "agent", "--spool", str(directory / "spool")]
        quick = ["--beat-seconds", "0.05", "--batch-seconds", "0", "--process-seconds", "0.05"]
        environment = os.environ | {"GPULEDGER_AGENT_PROGRESS": str(directory / "progress.sock")}
        self.process = subprocess.Popen([*line, *quick, *flags], cwd=ROOT, env=environment, stderr=subprocess.PIPE)

    def calls(self, event: str) -> list[str]:
        """Return the arguments of every call of this kind so far."""
        told = [json.loads(line) for line in self._told.read_text().splitlines()]
        return [arguments for name, arguments in told if name == event]

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a collector that takes everything."""
    with Receiver() as receiver:
        yield receiver


def after_batches(receiver: Receiver, agent: Watched, count: int) -> None:
    """Wait until this many batches have come."""
    until(lambda: len(receiver.bodies) >= count, f"{count} batches", process=agent.process)


def internet(calls: list[str]) -> set[str]:
    """Return the calls that leave for the network; a path is a socket of this host, a pair of numbers the kernel's."""
    return {arguments for arguments in calls if "'" in arguments and "/" not in arguments}


def test_the_agent_opens_one_connection_and_listens_on_loopback_alone(tmp_path: Path, receiver: Receiver) -> None:
    """It runs on every GPU host of a site: what it could reach, and who could reach it, is the site's surface."""
    agent = Watched(tmp_path, "--collector", receiver.url, "--listen", f"{LOOPBACK}:0")
    try:
        after_batches(receiver, agent, 20)
        port = int(receiver.url.rpartition(":")[2])
        assert internet(agent.calls("socket.connect")) == {f"(('{LOOPBACK}', {port}),)"}
        assert internet(agent.calls("socket.bind")) == {f"(('{LOOPBACK}', 0),)"}
        asked = {arguments for arguments in agent.calls("socket.getaddrinfo") if str(port) not in arguments}
        assert asked == set(), "no name but the collector's is looked up"
        assert agent.calls("socket.gethostbyname") == []
        assert [call for name in ("subprocess.Popen", "os.system", "os.exec") for call in agent.calls(name)] == []
        found = psutil.Process(agent.process.pid).net_connections("inet")
        assert {(one.status, one.laddr[0]) for one in found} <= {("LISTEN", LOOPBACK), ("ESTABLISHED", LOOPBACK)}
        assert sum(one.status == "LISTEN" for one in found) == 1
        assert sum(one.status == "ESTABLISHED" and one.raddr[1] == port for one in found) <= 1
    finally:
        agent.end()


def test_without_a_collector_and_a_port_it_has_no_socket_on_the_network(tmp_path: Path) -> None:
    """A recording or a spool for later needs no network at all."""
    agent = Watched(tmp_path, "--listen", "off")
    try:
        until(lambda: len(agent.calls("look")) > 20, "twenty looks at the host", process=agent.process)
        assert internet(agent.calls("socket.connect")) == internet(agent.calls("socket.bind")) == set()
        assert psutil.Process(agent.process.pid).net_connections("inet") == []
    finally:
        agent.end()
