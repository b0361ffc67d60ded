"""The agent as a process: killed, stopped, started again, and what it loads."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from agent.wire.envelope import open_envelope
from tests.agent.batches import rows_of
from tests.agent.receiver import Receiver, Reply
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parent.parent.parent
HEAVY = ("pyarrow", "duckdb", "fastapi", "plotly", "numpy", "pandas", "rich", "uvicorn")

Agent = subprocess.Popen[bytes]


class Agents:
    """Starts agents of the real command line, and ends what is left of them."""

    def __init__(self, spool: Path) -> None:
        self._spool = spool
        self.started: list[Agent] = []

    def start(self, url: str, *further: str) -> Agent:
        """Start one, quick enough for a test."""
        line = [sys.executable, "-m", "gpuledger", "agent", "--collector", url, "--spool", str(self._spool)]
        quick = ["--node", "n14", "--beat-seconds", "0.05", "--batch-seconds", "0", "--listen", "off"]
        agent = subprocess.Popen([*line, *quick, *further], cwd=ROOT, stderr=subprocess.PIPE)
        self.started.append(agent)
        return agent


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Agents]:
    """Return a starter of agents that share one spool."""
    starter = Agents(tmp_path / "spool")
    yield starter
    for agent in starter.started:
        agent.kill()
        agent.communicate()


def test_no_agent_of_a_test_sees_the_jobs_of_another_test() -> None:
    """A Slurm that a test runs keeps its jobs in the cgroups of this machine, where an agent finds what holds a GPU."""
    sysfs = Path(os.environ["GPULEDGER_AGENT_SYS"])
    assert (sysfs / "class").is_dir()
    assert not (sysfs / "fs").exists()


def wait_for(receiver: Receiver, batches: int) -> None:
    """Wait until the receiver has been sent this many bodies."""
    until(lambda: len(receiver.bodies) >= batches, f"{batches} batches", more=lambda: len(receiver.bodies))


def until_it_measures(agent: subprocess.Popen[bytes]) -> str:
    """Wait until /metrics shows an interval of the host, and return the agent's first words."""
    assert agent.stderr is not None
    words = agent.stderr.readline().decode()
    port = words.split("metrics on port ")[1].split(";")[0]

    def measures() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return b"gpuledger_host_memory_used_bytes " in answer.read()

    until(measures, "the host's memory is measured", process=agent)
    return words


@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.soak)])
def test_killed_again_and_again_nothing_is_lost_and_nothing_counts_twice(agents: Agents, kills: int) -> None:
    """Power cuts, OOM kills, impatient operators: a sequence is one body for ever, and the sequence has no hole.

    The receiver is hard of hearing: every third answer is lost on its way, so that batches come twice.
    """
    with Receiver() as receiver:

        def deaf(body: bytes) -> Reply | None:
            return None if len(receiver.bodies) % 3 == 0 else receiver.accept(body)

        receiver.answer = deaf
        for kill in range(kills):
            agent = agents.start(receiver.url)
            wait_for(receiver, len(receiver.bodies) + 1 + kill % 3)
            agent.kill()
            agent.wait()
        receiver.answer = receiver.accept
        last = agents.start(receiver.url)
        wait_for(receiver, len(receiver.bodies) + 2)
        last.terminate()
        assert last.wait(PATIENCE_SECONDS) == 0
        bodies = list(receiver.bodies)
    hashes: dict[tuple[str, int], set[str]] = defaultdict(set)
    for body in bodies:
        header, _ = open_envelope(body)
        hashes[header.stream, header.sequence].add(sha256(body).hexdigest())
    assert all(len(same) == 1 for same in hashes.values()), "one number, one body"
    (stream,) = {stream for stream, _ in hashes}
    assert sorted(sequence for _, sequence in hashes) == list(range(len(hashes))), f"{stream} has a hole"
    assert len(bodies) > len(hashes), "some did come twice, or this test shows nothing"


def intervals_of(receiver: Receiver) -> list[tuple[int, int]]:
    """Return the intervals of the host that were told, each body once, in order."""
    rows = {body: row for body in set(receiver.bodies) for row in rows_of(body, "host_samples")}
    return sorted((row["started_at"], row["ended_at"]) for row in rows.values())


def has_told(receiver: Receiver, intervals: int) -> bool:
    """Return whether so many intervals of the host were told."""
    return len(intervals_of(receiver)) >= intervals


def test_intervals_of_what_arrives_never_overlap(agents: Agents) -> None:
    """A restart must not tell the same second twice."""
    with Receiver() as receiver:
        for _ in range(2):
            agent = agents.start(receiver.url)
            enough = len(intervals_of(receiver)) + 3
            until(partial(has_told, receiver, enough), "three more intervals of the host")
            agent.terminate()
            agent.wait(PATIENCE_SECONDS)
        intervals = intervals_of(receiver)
    assert len(intervals) > 4
    assert all(left[1] <= right[0] for left, right in pairwise(intervals))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order(agents: Agents, number: signal.Signals) -> None:
    """systemd stops with SIGTERM; what was read until then is delivered, and the exit says success."""
    with Receiver() as receiver:
        agent = agents.start(receiver.url, "--batch-seconds", "3600", "--listen", "127.0.0.1:0")
        until_it_measures(agent)
        agent.send_signal(number)
        assert agent.wait(PATIENCE_SECONDS) == 0
        assert len(receiver.bodies) == 1, "the batch that an hour would have filled"
        assert rows_of(receiver.bodies[0], "host_samples")


def test_without_a_collector_it_serves_metrics_and_keeps_nothing(agents: Agents, tmp_path: Path) -> None:
    """A site may begin with Prometheus alone."""
    agent = agents.start("", "--listen", "127.0.0.1:0")
    assert "not sending: no collector is set" in until_it_measures(agent)
    assert not (tmp_path / "spool").exists()
    agent.terminate()
    assert agent.wait(PATIENCE_SECONDS) == 0


def test_two_agents_on_one_spool_are_refused(agents: Agents) -> None:
    """A second agent started by mistake must end, with the way out, and leave the first alone."""
    with Receiver() as receiver:
        agents.start(receiver.url)
        wait_for(receiver, 1)
        second = agents.start(receiver.url)
        _, words = second.communicate(timeout=PATIENCE_SECONDS)
        assert second.returncode == 3
        assert b"each agent needs its own" in words


def test_wrong_settings_are_exit_2_and_one_sentence() -> None:
    """A service manager tells a wrong setting from a broken world by this."""
    line = [sys.executable, "-m", "gpuledger", "agent"]
    environment = os.environ | {"GPULEDGER_AGENT_BEAT_SECONDS": "never"}
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, env=environment, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "gpuledger: agent.beat_seconds: 'never' is not a valid duration; examples: 10s, 500ms, 2m\n"


def test_an_agent_loads_nothing_heavy() -> None:
    """It runs on every GPU host, beside the work: no database, no web framework, no array library."""
    script = (
        "import sys, json, threading, agent.cli.agent, agent.run.watch, agent.daemon.agent\n"
        "from agent.clock import Clock\n"
        "from agent.config import AgentConfig\n"
        "from agent.daemon.agent import Agent\n"
        "from agent.sampling.wiring import open_host_sources\n"
        "import pathlib, tempfile\n"
        "config = AgentConfig(collector='http://127.0.0.1:1', spool=pathlib.Path(tempfile.mkdtemp()), listen='off')\n"
        "eyes, stop = open_host_sources(config, Clock().wall), threading.Event()\n"
        "stop.set()\n"
        "Agent(config, eyes, Clock()).run(stop)\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not set(json.loads(ended.stdout)) & set(HEAVY)


@pytest.mark.parametrize("flag", [["--json"], ["--every", "1s"]])
def test_what_belongs_to_once_starts_no_agent_without_it(flag: list[str]) -> None:
    """Who wanted a look at the JSON must not find an agent running instead."""
    line = [sys.executable, "-m", "gpuledger", "agent", *flag]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--json and --every require --once" in ended.stderr


def test_once_speaks_to_people_and_to_programs() -> None:
    """The first thing anybody tries on a host; the JSON is what would be sent."""
    line = [sys.executable, "-m", "gpuledger", "agent", "--once", "--every", "0.1s", "--node", "n14"]
    people = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert people[0].startswith("n14: ")
    assert any(text.startswith("host  CPU busy ") for text in people)
    document = json.loads(subprocess.run([*line, "--json"], cwd=ROOT, capture_output=True, check=True).stdout)
    assert document["node"] == "n14"
    (row,) = document["tables"]["host_samples"]
    assert row["started_at"] < row["ended_at"]
    assert "cpu_busy_ratio" in row, "an amount or a mean needs two readings, and there were two"
