"""What leaves a host where no name may leave it: the whole agent, with a name in every place that has one."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.wire.envelope import open_envelope
from tests.agent.batches import rows_of
from tests.agent.gpu.fake.build import build, compiler, healthy
from tests.agent.receiver import Receiver
from tests.fleet.ports import free_port
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[2]
NAME = "alice"

# A rank that holds a GPU, bears a name in its environment and its command line, and tells a checkpoint below a home.
RANK = """
import json, os, socket, sys, time
said = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for step in range(100000):
    try:
        said.sendto(json.dumps({"step": step, "checkpoint": "/home/alice/ckpt-%d" % step}).encode(), sys.argv[2])
    except OSError:
        pass
    time.sleep(0.02)
"""


class Host:
    """A host with one GPU, one rank, a prolog's file and a table of peers, all of which name a person."""

    def __init__(self, directory: Path, receiver: Receiver, identity: str) -> None:
        self.log = directory / "log"
        self.port = free_port()
        progress = directory / "progress.sock"
        environment = os.environ | {"GPULEDGER_RUN_ID": f"{NAME}-secret-experiment", "USER": NAME}
        line = [sys.executable, "-c", RANK, f"--owner={NAME}", str(progress)]
        self.rank = subprocess.Popen(line, env=environment)
        mapping = directory / "mapping"
        mapping.mkdir()
        (mapping / "0").write_text(f"{NAME}-job\n")
        scenario = healthy(directory / "scenario", gpus=1).every(processes=f"{self.rank.pid}:1000000000")
        settings = directory / "gpuledger.toml"
        values = {
            "collector": receiver.url,
            "spool": str(directory / "spool"),
            "listen": f"127.0.0.1:{self.port}",
            "beat_seconds": "0.1s",
            "batch_seconds": "0s",
            "process_seconds": "0.1s",
            "identity": identity,
            "identity_key": "sixteen characters or more",
            "dcgm_mapping": str(mapping),
            "progress": str(progress),
        }
        settings.write_text("[agent]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))
        driver = {"LD_LIBRARY_PATH": str(build(directory)), "GPULEDGER_FAKE_NVML": str(scenario.path)}
        own = {name: value for name, value in os.environ.items() if name != "GPULEDGER_AGENT_PROGRESS"}
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "gpuledger", "agent", "--config", str(settings)]
            self.agent = subprocess.Popen(command, cwd=ROOT, env=own | driver, stderr=log)

    def end(self) -> None:
        """End both."""
        for process in (self.agent, self.rank):
            process.kill()
            process.wait()


@pytest.fixture(params=["none", "hashed"])
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Host, list[bytes]]]:
    """Return the host and what its agent sent, once it has told of the run and of its steps."""
    if compiler() is None:
        pytest.skip("no C compiler: the fake NVIDIA driver cannot be built")
    with Receiver() as receiver:
        host = Host(tmp_path, receiver, request.param)
        try:
            wanted = {"allocations", "process_samples", "progress"}
            until(lambda: wanted <= tables(receiver.bodies), f"rows of {wanted}", more=host.log.read_text)
            # Of the first beat in which a run is heard it is not known how many steps it made.
            until(lambda: any(steps_in(receiver.bodies)), "steps of the run", more=host.log.read_text)
            yield host, list(receiver.bodies)
        finally:
            host.end()


def tables(bodies: list[bytes]) -> set[str]:
    """Return the tables of which rows have come."""
    return {part.name for body in list(bodies) for part in open_envelope(body)[0].tables}


def steps_in(bodies: list[bytes]) -> list[object]:
    """Return how many steps each row of progress tells."""
    return [row["steps"] for body in list(bodies) for row in rows_of(body, "progress")]


def test_no_name_of_a_person_leaves(told: tuple[Host, list[bytes]]) -> None:
    """A leak once lived in the ids of runs, where nobody looked: columns of names were tested, and ids were not."""
    host, bodies = told
    rows = {name: [row for body in bodies for row in rows_of(body, name)] for name in tables(bodies)}
    assert {row["scheduler"] for row in rows["allocations"]} >= {"declared"}
    assert any(steps_in(bodies))
    assert NAME not in repr(rows)
    with urllib.request.urlopen(f"http://127.0.0.1:{host.port}/metrics", timeout=PATIENCE_SECONDS) as answer:
        assert NAME not in answer.read().decode()
    assert NAME not in host.log.read_text()
