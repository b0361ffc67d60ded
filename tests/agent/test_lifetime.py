"""The daemon's life: settings read again, a pause, and what the world sees of both."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.wire.envelope import open_envelope
from tests.agent.batches import rows_of
from tests.agent.receiver import Receiver
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parent.parent.parent


class Daemon:
    """One agent of the real command line, with a settings file that can be written anew."""

    def __init__(self, directory: Path, url: str) -> None:
        self.settings = directory / "gpuledger.toml"
        self.control = directory / "control"
        self.control.mkdir()
        self._fixed = {
            "collector": url,
            "spool": str(directory / "spool"),
            "beat_seconds": "0.05s",
            "batch_seconds": "0s",
            "listen": "off",
            "control": str(self.control),
        }
        self.write(node="n14")
        self._log = directory / "log"
        line = [sys.executable, "-m", "gpuledger", "agent", "--config", str(self.settings)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(line, cwd=ROOT, stderr=log, env=self._environment())

    def write(self, **values: str) -> None:
        """Write the settings, these beside what never changes."""
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in (self._fixed | values).items()]
        self.settings.write_text("[agent]\n" + "".join(lines))

    def told(self, words: str) -> None:
        """Wait until the log holds these words."""
        until(lambda: words in self._log.read_text(), f"{words!r} is in the log", more=self._log.read_text)

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run `gpuledger agent WORDS` on the same settings."""
        line = [sys.executable, "-m", "gpuledger", "agent", *words, "--config", str(self.settings)]
        return subprocess.run(
            line, cwd=ROOT, capture_output=True, text=True, env=self._environment(), timeout=PATIENCE_SECONDS
        )

    def _environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name != "GPULEDGER_AGENT_CONTROL"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a collector that takes everything."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def daemon(tmp_path: Path, receiver: Receiver) -> Iterator[Daemon]:
    """Return a running agent."""
    daemon = Daemon(tmp_path, receiver.url)
    yield daemon
    daemon.process.kill()
    daemon.process.wait()


def nodes(receiver: Receiver) -> list[str]:
    """Return who sent the batches, each once, in order."""
    return list(dict.fromkeys(open_envelope(body)[0].agent for body in receiver.bodies))


def came_from(receiver: Receiver, expected: list[str]) -> None:
    """Wait until batches have come from these nodes, in this order."""
    until(lambda: nodes(receiver) == expected, f"batches of {expected}", more=lambda: nodes(receiver))


def more_came(receiver: Receiver, count: int) -> int:
    """Wait for so many batches more, and return how many there were before."""
    before = len(receiver.bodies)
    until(lambda: len(receiver.bodies) >= before + count, f"{count} more batches")
    return before


def test_settings_are_read_again_on_sighup(daemon: Daemon, receiver: Receiver) -> None:
    """A restart would look like an outage to whoever watches the service."""
    came_from(receiver, ["n14"])
    daemon.write(node="n15")
    daemon.process.send_signal(signal.SIGHUP)
    came_from(receiver, ["n14", "n15"])
    assert daemon.process.poll() is None


def test_bad_settings_keep_the_old_ones(daemon: Daemon, receiver: Receiver) -> None:
    """A slip of the pen in a file that is rolled out must not end ten thousand agents."""
    daemon.told("every 0.05 s")
    daemon.write(node="n15", beat_seconds="soon")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.told("invalid settings, keeping the old ones")
    more_came(receiver, 3)
    assert nodes(receiver) == ["n14"]


@pytest.mark.parametrize("slip", ["topology_table", "listen", "spool"])
def test_settings_with_which_it_cannot_start_keep_the_old_ones(daemon: Daemon, receiver: Receiver, slip: str) -> None:
    """That a port is taken or a table is missing shows only when it is tried; the old settings must work again then."""
    came_from(receiver, ["n14"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wrong = {
            "topology_table": "/nonexistent.csv",
            "listen": f"127.0.0.1:{taken.getsockname()[1]}",
            "spool": "/proc/spool",
        }
        daemon.write(node="n15", **{slip: wrong[slip]})
        daemon.process.send_signal(signal.SIGHUP)
        daemon.told("invalid settings, keeping the old ones")
    more_came(receiver, 3)
    assert daemon.process.poll() is None
    daemon.write(node="n16")
    daemon.process.send_signal(signal.SIGHUP)
    came_from(receiver, ["n14", "n16"])


def test_a_paused_agent_reads_nothing_and_says_so(daemon: Daemon, receiver: Receiver) -> None:
    """Who benchmarks a host wants it alone; who bills for it must see why it was silent."""
    daemon.told("every 0.05 s")
    paused = daemon.command("pause", "--for", "2h", "--why", "NCCL tests")
    assert (paused.returncode, paused.stdout) == (0, "paused for 2h; to end it sooner: gpuledger agent resume\n")
    daemon.told("(NCCL tests): nothing is read")
    before = more_came(receiver, 5)
    later = receiver.bodies[before + 2 :]
    assert all(part.name == "agent_samples" for body in later for part in open_envelope(body)[0].tables)
    assert all(row["paused"] for body in later for row in rows_of(body, "agent_samples"))
    assert daemon.command("resume").stdout == "the pause is over\n"
    daemon.told("the pause is over: reading this host again")


def test_a_pause_needs_its_length(daemon: Daemon) -> None:
    """One without an end would be forgotten."""
    ran = daemon.command("pause")
    assert ran.returncode == 2
    assert "the following arguments are required: --for" in ran.stderr
