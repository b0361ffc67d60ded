from pathlib import Path

import pytest

from agent.errors import SourceError
from agent.sources.flows import FlowSource, Peers, abroad
from agent.sources.sockets import Dump, Socket
from tests.agent.sources.flows_wire import packed


class Kernel:
    """A kernel that lists the sockets it is told to."""

    def __init__(self) -> None:
        self.sockets: list[Socket] = []
        self.left_out = 0

    def dump(self) -> Dump:
        """Return its list."""
        return Dump({one.cookie: one for one in self.sockets}, self.left_out)


@pytest.fixture
def kernel() -> Kernel:
    """Return a kernel without sockets."""
    return Kernel()


@pytest.fixture
def source(kernel: Kernel, tmp_path: Path) -> FlowSource:
    """Return the source of host n1, where cgroup numbers are those of two jobs, and n2 and n3 are known."""
    (tmp_path / "hosts").write_text("10.0.0.2 n2\n10.0.0.3 n3\n10.1.0.3 n3\n")
    for job in ("job_1", "job_2"):
        (tmp_path / "fs/cgroup/slurmstepd.scope" / job).mkdir(parents=True)
    (tmp_path / "fs/cgroup/cgroup.controllers").touch()
    peers = Peers(hosts=tmp_path / "hosts")
    return FlowSource(
        "n1", lambda cgroup: cgroup.rpartition("/")[2], peers, tmp_path, dump=kernel.dump, neighbours=lambda: 0
    )


def cgroup(place: Path, job: str) -> int:
    """Return the number of a job's cgroup."""
    return (place / "fs/cgroup/slurmstepd.scope" / job).stat().st_ino


def to(cookie: int, peer: str, received: int, group: int | None = None, local: str = "10.0.0.1") -> Socket:
    """Return a connection to a peer."""
    return Socket(cookie, packed(local), packed(peer), group, received, 0, 0)


def test_connections_are_told_by_run_and_peer(source: FlowSource, kernel: Kernel, tmp_path: Path) -> None:
    """Two rails to one host are one peer; what is of no run is shown as such."""
    assert source.read() == {"flow_samples": []}
    one = cgroup(tmp_path, "job_1")
    kernel.sockets = [to(1, "10.0.0.3", 5, one), to(2, "10.1.0.3", 6, one), to(3, "10.9.9.9", 7)]
    rows = source.read()["flow_samples"]
    assert [(row["run_id"], row["peer"], row["receive_bytes"]) for row in rows] == [
        ("job_1", "n3", 11),
        ("unattributed/n1", "10.9.9.9", 7),
    ]


def test_traffic_within_the_host_is_left_out(kernel: Kernel) -> None:
    """A loader that talks to its workers over loopback loads no link; nor does it by the host's own address."""
    kernel.sockets = [
        to(1, "127.0.0.53", 1, local="127.0.0.1"),
        to(2, "::1", 1, local="::1"),
        to(3, "10.0.0.1", 1),
        to(4, "10.0.0.2", 1),
    ]
    assert set(abroad(kernel.dump())) == {4}


def test_rdma_is_estimated_for_the_one_run_that_has_peers(source: FlowSource, kernel: Kernel, tmp_path: Path) -> None:
    """The ports' bytes go to the nodes that the run holds connections to, although those move next to nothing."""
    one = cgroup(tmp_path, "job_1")
    counters = tmp_path / "class/infiniband/mlx5_0/ports/1/counters"
    counters.mkdir(parents=True)
    for name, words in (("port_rcv_data", 100), ("port_xmit_data", 100)):
        (counters / name).write_text(str(words))
    kernel.sockets = [to(1, "10.0.0.2", 5, one), to(2, "10.0.0.3", 5, one), to(3, "10.9.9.9", 5, one)]
    source.read()
    (counters / "port_rcv_data").write_text("300")
    rows = source.read()["flow_samples"]
    assert [(row["peer"], row["transport"], row["receive_bytes"]) for row in rows] == [
        ("n2", "rdma_estimate", 400),
        ("n3", "rdma_estimate", 400),
    ]
    kernel.sockets.append(to(4, "10.0.0.2", 0, cgroup(tmp_path, "job_2")))
    (counters / "port_rcv_data").write_text("500")
    assert source.read()["flow_samples"] == []
    assert any("2 runs share the ports" in line for line in source.coverage())


def test_what_is_not_seen_is_said(source: FlowSource, kernel: Kernel) -> None:
    """A host that is seen in part must not pass for one that is seen."""
    source.read()
    assert len(source.coverage()) == 1  # short connections, always
    kernel.left_out = 3
    source.read()
    kernel.sockets = [to(number, f"10.2.{number // 250}.{number % 250}", 1) for number in range(100)]
    kernel.left_out = 0
    source.read()
    kernel.sockets += [to(number, f"10.2.{number // 250}.{number % 250}", 1) for number in range(100, 200)]
    source.read()
    assert "36 pairs of run and peer are reported as peer=other" in source.coverage()


def test_a_kernel_that_does_not_answer_is_the_samplers_to_count(tmp_path: Path) -> None:
    """The source does not swallow it: it is logged once, and tried again."""

    def broken() -> Dump:
        raise SourceError("no netlink here")

    def unknown() -> int:
        raise SourceError("no netlink here")

    source = FlowSource("n1", lambda cgroup: None, Peers(hosts=tmp_path), tmp_path, dump=broken, neighbours=unknown)
    with pytest.raises(SourceError):
        source.read()
    assert any("not known" in line for line in source.coverage())
