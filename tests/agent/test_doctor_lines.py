"""What the examination says of what was found, from readings alone."""

from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.doctor import (
    HostCheckLine,
    collector_line,
    connection,
    health_lines,
    holder_lines,
    identity_columns,
    leaving,
    listens_on,
    may_trace,
    measured_lines,
    process_lines,
    rack_line,
    spool_line,
)
from agent.source import Supported
from agent.wire.tables import TABLES
from tests.agent.receiver import Receiver

NO_GPM = "GPM needs Hopper or newer; this is Ampere"


def test_what_all_gpus_tell_is_one_line() -> None:
    """Eight GPUs with fourteen subjects would be a page that nobody reads."""
    told = [Supported(f"GPU-{n}", subject) for n in range(8) for subject in ("power", "utilization", "activity")]
    assert measured_lines(told) == [
        HostCheckLine("yes", "utilization, power"),
        HostCheckLine("yes", "SM, tensor and DRAM activity (GPM)"),
    ]


def test_what_is_not_told_says_why() -> None:
    """A missing panel without a reason is the most frequent complaint about exporters."""
    told = [Supported("GPU-1", "activity", ok=False, reason=NO_GPM), Supported("GPU-1", "power")]
    assert measured_lines(told) == [
        HostCheckLine("yes", "power"),
        HostCheckLine("no", f"SM, tensor and DRAM activity (GPM): {NO_GPM}"),
    ]


def test_what_some_gpus_tell_says_how_many() -> None:
    """A mixed host is neither yes nor no."""
    told = [Supported("GPU-1", "energy"), Supported("GPU-2", "energy", ok=False, reason="not supported")]
    assert measured_lines(told) == [HostCheckLine("some", "energy on 1 of 2 GPUs: not supported")]


def test_what_no_gpu_of_this_kind_has_is_not_missed() -> None:
    """A PCIe board without NVLink has nothing to mend."""
    assert measured_lines([Supported("GPU-1", "nvlink", ok=False, reason="not supported")]) == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"up": False}, "GPU-1 is lost"),
        ({"pcie_width": 8, "pcie_width_max": 16}, "GPU-1 has a PCIe link of 8 lanes; it supports 16"),
        ({"row_remap_failure": True}, "GPU-1 could not remap a broken memory row"),
        ({"row_remap_pending": True}, "GPU-1 needs a reset to remap a memory row"),
        ({"recovery_action": "node_reboot"}, "GPU-1: the driver recommends node reboot"),
    ],
)
def test_a_sick_gpu_is_bad(row: dict[str, str | int | bool | None], words: str) -> None:
    """These are what a job finds out hours later."""
    (line,) = health_lines((1, 1), [{"gpu_uuid": "GPU-1", **row}])
    assert (line.answer, line.what) == ("bad", words)
    assert line.remedy


def test_a_healthy_gpu_is_not_mentioned() -> None:
    """A page of good news hides the bad."""
    row: dict[str, str | int | bool | None]
    row = {"gpu_uuid": "GPU-1", "up": True, "pcie_width": 16, "pcie_width_max": 16, "recovery_action": "none"}
    assert health_lines((8, 8), [row]) == []


def test_a_gpu_that_is_missing_is_bad_although_it_has_no_row() -> None:
    """A GPU off the bus is in no list of the driver's."""
    assert health_lines((8, 7), []) == [
        HostCheckLine("bad", "1 of 8 GPUs not responding", "check the kernel log for XID 79; reset or reseat them")
    ]


@pytest.mark.parametrize(("effective", "may"), [("0000000000080000", True), ("0000000000000000", False)])
def test_the_right_to_look_into_processes_is_one_bit(effective: str, *, may: bool) -> None:
    """It decides what the page promises."""
    assert may_trace(f"Name:\tx\nCapEff:\t{effective}\n") is may


def test_a_rack_that_nobody_says_is_a_no_with_a_way_out() -> None:
    """Without it no transfer is called cross-rack, and nobody would know why."""
    (line,) = rack_line({"inventory": [{"rack": None}]})
    assert line.answer == "no"
    assert "topology_slurm" in line.remedy


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "nothing: no collector is set"),
        ({"collector": "https://gl.example:8470"}, "one outbound connection, TLS, to gl.example:8470"),
        ({"collector": "http://gl.example:8470"}, "one outbound connection, not encrypted, to gl.example:8470"),
        ({"collector": "https://gl.example"}, "one outbound connection, TLS, to gl.example:443"),
    ],
)
def test_the_connection_is_named(settings: dict[str, str], words: str) -> None:
    """A reviewer opens the firewall by this line."""
    assert connection(AgentConfig(**settings)) == words  # type: ignore[arg-type]


def test_where_it_listens_is_named_with_its_locks() -> None:
    """A port without a lock on all interfaces must be seen here."""
    assert listens_on(AgentConfig()) == "127.0.0.1:9477 only"
    assert listens_on(AgentConfig(listen="off")) == "nothing"
    assert (
        listens_on(AgentConfig(listen="0.0.0.0:9477", scrape_token="x" * 20))
        == "0.0.0.0:9477, password or token required"
    )


def test_what_names_people_comes_from_the_contract() -> None:
    """A column that is added must not be forgotten here."""
    declared = {
        column.name for table in TABLES.values() for column in table.columns if column.sensitivity == "identity"
    }
    assert set(identity_columns(TABLES.values())) == declared
    assert set(leaving(AgentConfig(), 0).identity) == declared


def test_a_collector_that_answers_is_a_yes_and_a_dead_one_is_bad() -> None:
    """Everything else on the page is worth nothing if the batches do not arrive."""
    with Receiver() as receiver:
        url = receiver.url
        (there,) = collector_line(AgentConfig(collector=url))
        (unproved,) = collector_line(AgentConfig(collector=url, token="at least sixteen characters"))
    (gone,) = collector_line(AgentConfig(collector=url))
    assert (there.answer, gone.answer) == ("yes", "bad")
    assert "is reachable from here" in gone.remedy
    assert unproved.what.endswith("; the token was not tried (see the agent's log)"), "a yes must not cover that"


def test_a_spool_that_cannot_be_written_is_bad(tmp_path: Path) -> None:
    """The agent would refuse to start; the page says it beforehand."""
    config = AgentConfig(collector="http://gl.example:8470", spool=tmp_path / "spool")
    assert spool_line(config) == []
    missing = AgentConfig(collector="http://gl.example:8470", spool=tmp_path / "none" / "spool")
    assert [line.answer for line in spool_line(missing)] == ["bad"]


def test_a_procfs_that_hides_others_is_told(tmp_path: Path) -> None:
    """With hidepid no process on a GPU has an owner, and the page must not say that all can be read."""
    (line,) = process_lines(AgentConfig(proc=tmp_path), 0)
    assert line.answer == "no"
    assert "hidepid" in line.what
    assert "gid=" in line.remedy


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("system.slice/slurmstepd.scope/job_7", "Slurm jobs (cgroup v1)"),
        ("slurm.slice/n1_slurmstepd.scope/job_7", "Slurm jobs (cgroup v1)"),
        ("memory/slurm/uid_1000/job_7", "Slurm jobs (cgroup v1)"),
        ("pbs_jobs.service/jobs/7.pbs01", "PBS jobs (cgroup)"),
        ("memory/pbs_jobs.service/jobid/7.pbs01", "PBS jobs (cgroup)"),
        ("memory/lsf/hpc1/job.7.1.2", "LSF jobs (cgroup)"),
        ("system.slice/condor.service/condor_scratch_slot1@n1", "HTCondor jobs (cgroup)"),
        ("user.slice/user-1000.slice", "no scheduler here: a GPU is attributed to the user of its processes"),
    ],
)
def test_schedulers_are_told_by_their_cgroups(tmp_path: Path, place: str, said: str) -> None:
    """Whoever installs the agent sees whether it will know whose GPUs are."""
    (tmp_path / "fs/cgroup" / place).mkdir(parents=True)
    config = AgentConfig(sys=tmp_path, kubelet=None, jobstats=None, dcgm_mapping=None)
    assert [line.what for line in holder_lines(config)] == [said]
