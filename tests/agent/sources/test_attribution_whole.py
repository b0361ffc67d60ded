"""The whole agent on a host with GPUs, a kubelet, a job's mapping file and dcgm-exporter's: who holds what."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.gpu.fake import situations
from tests.agent.sources.kubelet_stand_in import StandIn, allocatable_response, list_response
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
WHOLE = "GPU-00000001-0000-0000-0000-000000000000"
SMALL, LARGE = "MIG-00000000-0000-0000-0000-000000000001", "MIG-00000000-0000-0000-0000-000000000003"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[StandIn]:
    """Return a kubelet with a pod that has a part of the whole GPU, by GKE's name for it."""
    stand_in = StandIn(tmp_path / "kubelet.sock")
    stand_in.listed = list_response({"ml/chat-0": {"main": {"nvidia.com/gpu": ["nvidia1/vgpu1"]}}})
    stand_in.allocatable = allocatable_response("nvidia.com/gpu", ["nvidia1/vgpu0", "nvidia1/vgpu1"])
    stand_in.start()
    yield stand_in
    stand_in.stop()


def once(library: Path, at: Path, kubelet: StandIn) -> dict[str, Any]:
    """Return the document of one reading of the agent."""
    scenario = situations.mig(at / "scenario").gpu(1, processes=None).instance(0, 2, processes=None)
    for directory, name, content in (("dcgm", "0.9", "81234\n"), ("gpustat", LARGE, "81240 0\n")):
        (at / directory).mkdir()
        (at / directory / name).write_text(content)
    (at / "sys").mkdir()  # or this machine's own jobs would be seen too
    (at / "agent.toml").write_text(
        f'[agent]\nnode = "n14"\nlisten = "off"\nflows = false\nsys = "{at}/sys"\nkubelet = "{kubelet.socket}"\n'
        f'dcgm_mapping = "{at}/dcgm"\njobstats = "{at}/gpustat"\n'
    )
    command = [sys.executable, str(ROOT / "gpuledger.py"), "agent", "--once", "--json", "--config", f"{at}/agent.toml"]
    driver = {"LD_LIBRARY_PATH": str(library), "GPULEDGER_FAKE_NVML": str(scenario.path)}
    done = subprocess.run(command, env=os.environ | driver, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def held_gpus(document: dict[str, Any]) -> dict[str, Any]:
    """Return what a reading says of each held GPU."""
    return {row["gpu_uuid"]: row for row in document["tables"]["allocations"]}


def test_every_witness_names_the_drivers_gpus(library: Path, tmp_path: Path, kubelet: StandIn) -> None:
    """A device file with a part, an index with an instance, and a UUID: all are GPUs that the driver lists."""
    held = held_gpus(once(library, tmp_path, kubelet))
    assert {uuid: (row["run_id"], row["scheduler"]) for uuid, row in held.items()} == {
        WHOLE: ("kubernetes/default/ml.chat-0", "kubernetes"),
        SMALL: ("slurm/default/81234", "declared"),
        LARGE: ("slurm/default/81240", "declared"),
    }
    assert (held[WHOLE]["member"], held[WHOLE]["gpu_fraction"]) == ("ml/chat-0/main", 0.5)
    assert held[LARGE]["user"] == "root"


def test_a_reading_names_the_witness_that_did_not_answer(library: Path, tmp_path: Path, kubelet: StandIn) -> None:
    """There is no next reading, so each is waited for; what a hung kubelet would say is not told as nobody."""
    kubelet.hang.set()
    try:
        document = once(library, tmp_path, kubelet)
    finally:
        kubelet.go_on.set()
    assert "kubelet" in document["failing"]
    assert set(held_gpus(document)) == {SMALL, LARGE}
