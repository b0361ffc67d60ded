"""Ranks that a launcher started without a scheduler are one run."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.attribution.evidence import Process
from agent.attribution.run import HostIdentity, attribute, rank
from agent.sources.claims import Claims
from agent.sources.process_table import read_table

PLACE = HostIdentity("n14", "alpha")
PARENT = (4700, 99000)
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29500"}


def _process(environment: dict[str, str], parent: tuple[int, int] | None = PARENT, cgroup: str = "") -> Process:
    return Process(4711, 99213, cgroup, environment, 1001, "ada", parent=parent)


@pytest.mark.parametrize(
    ("environment", "run_id"),
    [
        (TORCHRUN, "declared/n14/1001/torchrun-4700.99000"),
        (TORCHRUN | {"TORCHELASTIC_RUN_ID": "llama 7b/ada"}, "declared/alpha/1001/torchrun-llama-7b-ada"),
        ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29501"}, "declared/n14/1001/ranks-4700.99000-29501"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "declared/n14/1001/ranks-4700.99000"),
        (
            {"OMPI_COMM_WORLD_RANK": "1", "PMIX_NAMESPACE": "prterun-n14-511@1"},
            "declared/alpha/1001/mpi-prterun-n14-511-1",
        ),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "declared/n14/1001/mpi-4700.99000"),
        ({"RANK": "0"}, "process/n14/4711.99213"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "process/n14/4711.99213"),
        (TORCHRUN | {"GPULEDGER_RUN_ID": "mine"}, "declared/n14/1001/mine"),
        (
            TORCHRUN | {"SLURM_JOB_ID": "5"},
            "declared/n14/1001/torchrun-4700.99000",
        ),  # and no step of job 5 has started it
    ],
)
def test_ranks_are_one_run(environment: dict[str, str], run_id: str) -> None:
    """Eight processes of one training are one line of the ledger; what has a name already keeps it."""
    assert attribute(_process(environment), PLACE).run_id == run_id


def test_a_run_of_several_hosts_has_one_name() -> None:
    """The rendezvous id is all that its hosts have in common."""
    environment = TORCHRUN | {"TORCHELASTIC_RUN_ID": "0c4e7a52-standalone"}
    here = attribute(_process(environment), PLACE)
    there = attribute(_process(environment, (12, 7)), HostIdentity("n15", "alpha"))
    assert here.run_id == there.run_id == "declared/alpha/1001/torchrun-0c4e7a52-standalone"


@pytest.mark.parametrize("parent", [None, (1, 1)])
def test_ranks_without_their_launcher_are_not_thrown_together(parent: tuple[int, int] | None) -> None:
    """Below init hang the orphans of all launches: what they have in common means nothing."""
    assert attribute(_process(TORCHRUN, parent), PLACE).run_id == "process/n14/4711.99213"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (TORCHRUN | {"SLURM_PROCID": "0"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "5"}, 5),
        ({"SLURM_PROCID": "6"}, 6),
        ({"RANK": "-1"}, None),
        ({"RANK": "9" * 30}, None),
        ({}, None),
    ],
)
def test_a_rank_has_a_number(environment: dict[str, str], expected: int | None) -> None:
    """The launcher's own number comes before that of the batch script that it runs in, which is 0 for all."""
    assert rank(environment) == expected


LAUNCHER = """
import os, subprocess, sys
ranks = [
    subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        stdout=subprocess.PIPE,
    )
    for rank in range(2)
]
for rank in ranks:
    rank.stdout.readline()  # until then the kernel may show a process between two programs, without an environment
print(*(rank.pid for rank in ranks), flush=True)
sys.stdin.read()
for rank in ranks:
    rank.kill()
    rank.wait()
"""


@pytest.fixture
def launcher() -> Iterator[tuple[int, list[int]]]:
    """Return a real launcher's pid and those of its two ranks."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "GPULEDGER_"))}
    environment |= {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], stdin=-1, stdout=-1, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process.pid, [int(pid) for pid in process.stdout.readline().split()]
        process.communicate("")


def test_real_ranks_of_one_launcher_are_one_run(launcher: tuple[int, list[int]]) -> None:
    """Parents, starts and environments as this kernel shows them."""
    above, pids = launcher
    table = read_table(Path("/proc"))
    claims = Claims(Path("/proc"), lambda process: attribute(process, PLACE)).update(table.processes, frozenset(pids))
    started = table.processes[above].started_ticks
    assert {claim.attribution.run_id for claim in claims.values()} == {
        f"declared/n14/{os.getuid()}/torchrun-{above}.{started}"
    }
    assert sorted(claim.attribution.rank or 0 for claim in claims.values()) == [0, 1]
