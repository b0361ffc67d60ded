"""In a PID namespace of its own the agent hears of processes that it cannot see: it says so, and guesses nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.attribution.devices import Device, Devices
from agent.attribution.kubelet import Kubelet
from agent.attribution.providers import HolderProviders
from agent.sources.processes import ProcessSource
from agent.sources.register import Register
from tests.agent.sources.conftest import told
from tests.agent.sources.kubelet_stand_in import StandIn, list_response
from tests.waiting import PATIENCE_SECONDS

GPU = "GPU-00000000-0000-0000-0000-000000000000"
HOST_PID = 48_213  # as the driver numbers it


@pytest.fixture
def container(tmp_path: Path) -> Path:
    """Return a /proc in which there is the agent alone, as process 1."""
    proc = tmp_path / "proc"
    (proc / "1").mkdir(parents=True)
    numbers = " ".join(["0"] * 40)
    (proc / "1/stat").write_text(f"1 (gpuledger) S 0 {numbers}\n")
    (proc / "1/cgroup").write_text("0::/\n")
    return proc


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[StandIn]:
    """Return a kubelet with a pod on the GPU."""
    stand_in = StandIn(tmp_path / "kubelet.sock")
    stand_in.listed = list_response({"ml/trainer-0": {"main": {"nvidia.com/gpu": [GPU]}}})
    stand_in.start()
    yield stand_in
    stand_in.stop()


def test_processes_that_are_not_seen_are_counted_and_nobody_s(container: Path, attribution: Any, holder: Any) -> None:
    """Who they are only the host's own /proc says; a guess would charge somebody."""
    source = ProcessSource(lambda: told([holder(GPU, HOST_PID, 2**30)]), attribution, lambda: 1, proc=container)
    reading = source.read()
    assert source.unseen == 1
    assert {name: rows for name, rows in reading.items() if rows} == {}, "it may just have ended"
    (held,) = source.read()["allocations"]
    assert (held["run_id"], held["gpu_uuid"], held["scheduler"]) == ("process//hidden", GPU, "process")
    assert source.read()["allocations"] == []


def test_the_kubelet_still_says_who_holds_what(
    container: Path, tmp_path: Path, kubelet: StandIn, attribution: Any, holder: Any
) -> None:
    """By the pod's name, which the cluster's side leads to its owner; of its processes nothing is known."""
    devices, empty = Devices([Device(GPU, 0)]), tmp_path / "empty"
    asked = Kubelet(kubelet.socket, "prod", lambda: devices, sys=empty, logs=empty)
    holders = HolderProviders([asked], patience_seconds=PATIENCE_SECONDS)
    register = Register(holders)
    source = ProcessSource(
        lambda: told([holder(GPU, HOST_PID, 2**30)]),
        attribution,
        lambda: 1,
        proc=container,
        sys=empty,
        register=register,
    )
    (row,) = source.read()["allocations"]
    holders.close()
    assert (row["run_id"], row["scheduler"]) == ("kubernetes/prod/ml.trainer-0", "kubernetes")
    assert (row["gpu_uuid"], row["ended_at"]) == (GPU, None)
    assert source.unseen == 1
