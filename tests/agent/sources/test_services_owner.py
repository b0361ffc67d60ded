"""Whose run a service is: of the processes behind its port, and of nobody where that is not plain."""

import ipaddress
import os
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.attribution.evidence import Process, user_name
from agent.attribution.run import Attribution
from agent.errors import SourceError
from agent.sources.services import Owners, Service
from agent.sources.sockets import Listener, behind, listener_of, listeners

UID = 4711
HERE = ipaddress.ip_address("127.0.0.1")
EVERYWHERE = ipaddress.ip_address("0.0.0.0")
SERVICE = Service("http", "127.0.0.1", 8000, "/metrics")


def listener(cgroup: int | None, uid: int = UID) -> Listener:
    """Return a listener on the service's port."""
    return Listener(HERE, 8000, uid, cgroup)


class Host:
    """A host as files: cgroups, and processes in them."""

    def __init__(self, root: Path) -> None:
        self.proc, self.sys = root / "proc", root / "sys"
        self.cgroups = self.sys / "fs/cgroup"
        self.cgroups.mkdir(parents=True)
        (self.cgroups / "cgroup.controllers").touch()
        self.holders: set[int] = set()

    def cgroup(self, path: str) -> int:
        """Make a cgroup, and return its number."""
        directory = self.cgroups / path.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        return directory.stat().st_ino

    def holder(self, pid: int, cgroup: str, uid: int = UID) -> None:
        """Make a process that holds a GPU."""
        here = self.proc / str(pid)
        here.mkdir(parents=True)
        (here / "stat").write_text(f"{pid} (python) S 1 " + " ".join(["0"] * 17) + " 99 0 0\n")
        (here / "status").write_text(f"Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (here / "cgroup").write_text(f"0::{cgroup}\n")
        self.holders.add(pid)

    def run_of(self, found: Listener | None) -> str:
        """Return the run of the service, this listener being behind its port."""
        owners = Owners(
            "n1", self.proc, self.sys, alone, scheduled, lambda: self.holders, lambda: [found] if found else []
        )
        return owners.run_of(SERVICE)


def alone(process: Process) -> Attribution:
    """Return a run of its own for every process."""
    return Attribution(f"process/n1/{process.pid}.{process.started_ticks}", "process", owner=process.owner)


def scheduled(cgroup: str) -> str | None:
    """Return the run of a cgroup that a scheduler made, in the words of /proc/<pid>/cgroup."""
    return "slurm/alpha/7" if "job_7" in cgroup else None


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return a host without processes."""
    return Host(tmp_path)


def test_a_job_is_known_by_its_cgroup(host: Host) -> None:
    """Server and engine are different processes of one job, perhaps in different steps of it."""
    number = host.cgroup("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0")
    assert host.run_of(listener(number)) == "slurm/alpha/7"


def test_a_container_is_known_by_its_holder(host: Host) -> None:
    """The API server listens, its engine holds the GPU: both are in the container's cgroup."""
    number = host.cgroup("/system.slice/docker-1.scope")
    host.holder(100, "/system.slice/docker-1.scope")
    assert host.run_of(listener(number)) == "process/n1/100.99"


def test_nothing_is_guessed(host: Host) -> None:
    """Where two runs could be meant, or none, the service has a name of its own, and accuses nobody of anything."""
    number = host.cgroup("/user.slice/session-3.scope")
    nobody = "service/n1/127.0.0.1:8000"
    assert host.run_of(listener(number)) == nobody, "no holder there"
    host.holder(100, "/user.slice/session-3.scope", uid=UID + 1)
    assert host.run_of(listener(number)) == nobody, "another user's"
    host.holder(101, "/user.slice/session-3.scope")
    assert host.run_of(listener(number)) == "process/n1/101.99"
    host.holder(102, "/user.slice/session-3.scope")
    assert host.run_of(listener(number)) == nobody, "two runs of one user in one session"
    assert host.run_of(listener(None)) == host.run_of(None) == nobody


def test_a_kernel_that_does_not_tell_leaves_it_without_an_owner(host: Host) -> None:
    """The service is still read."""

    def refuses() -> list[Listener]:
        raise SourceError("no")

    owners = Owners("n1", host.proc, host.sys, alone, scheduled, lambda: host.holders, refuses)
    assert owners.run_of(SERVICE) == "service/n1/127.0.0.1:8000"


def test_a_kernel_that_does_not_tell_once_moves_no_work_to_nobody(host: Host) -> None:
    """The tokens of that page were told of a run that holds no GPU, and the service's cost fewer tokens' more."""
    number = host.cgroup("/system.slice/slurmstepd.scope/job_7")
    answers: list[list[Listener] | None] = [[listener(number)], None, []]

    def ask() -> list[Listener]:
        said = answers.pop(0)
        if said is None:
            raise SourceError("no")
        return said

    owners = Owners("n1", host.proc, host.sys, alone, scheduled, lambda: host.holders, ask)
    said = [owners.run_of(SERVICE) for _ in range(3)]
    assert said == ["slurm/alpha/7", "slurm/alpha/7", "service/n1/127.0.0.1:8000"]


def test_the_kernel_tells_who_listens() -> None:
    """As any user, and without a look into anybody's /proc/<pid>/fd."""
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        found = behind("localhost", port, listeners())
    assert found is not None
    assert (found.address, found.port, found.uid) == (HERE, port, os.getuid())
    assert user_name(found.uid)


def test_the_address_must_be_this_hosts() -> None:
    """A name is not looked up, and another host's port is not ours."""
    among = [Listener(EVERYWHERE, 8000, 1, 10), Listener(HERE, 8001, 2, 20), Listener(EVERYWHERE, 8001, 3, 30)]
    assert behind("127.0.0.1", 8000, among) == among[0]
    assert behind("127.0.0.1", 8001, among) == among[1], "the nearer one answers"
    assert behind("10.0.0.7", 8000, among) is None
    assert behind("gpu7.example", 8000, among) is None
    assert behind("127.0.0.1", 9999, among) is None
    shared = [Listener(HERE, 8000, 1, 10), Listener(HERE, 8000, 1, 11)]
    assert behind("127.0.0.1", 8000, shared) is None, "SO_REUSEPORT: two cgroups behind one port"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_listener_or_refused(body: bytes) -> None:
    """What the kernel sends is parsed with no trust in lengths."""
    try:
        found = listener_of(body)
    except ValueError:
        return
    assert 0 <= found.port < 2**16


def test_a_message_of_the_kernel() -> None:
    """Fields where include/uapi/linux/inet_diag.h has them."""
    message = struct.pack(
        "=BBBBHH16s16sI8sIIIII", 2, 10, 0, 0, socket.htons(8000), 0, HERE.packed, b"", 0, b"", 0, 0, 0, UID, 5
    )
    assert listener_of(message + struct.pack("=HHQ", 12, 21, 77)) == Listener(HERE, 8000, UID, 77)
