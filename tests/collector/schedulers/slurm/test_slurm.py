"""Jobs on a real Slurm: what lands is what Slurm says, and what the hosts see of them bears the same names."""

import getpass
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.attribution.devices import Device, Devices
from agent.attribution.evidence import Process, read_process
from agent.attribution.jobs import Jobstats
from agent.attribution.run import HostIdentity, attribute
from collector.config import CollectorConfig
from collector.pipeline.writer import Writer
from collector.schedulers.poller import Poller
from collector.schedulers.slurm.reader import Commands, Form, SlurmReader
from collector.schedulers.slurm.source import open_slurm
from collector.store.database import Store
from tests.collector.schedulers.slurm.cluster import GPUS, NODES, Cluster
from tests.waiting import PATIENCE_SECONDS

EVERY_SECONDS = 30.0
Row = dict[str, Any]


class Watched:
    """A store whose poller is asked by hand, in one of the two forms of Slurm's answers."""

    def __init__(self, form: Form) -> None:
        self.store = Store.open(None, memory_limit="500MB")
        self.writer = Writer(self.store, CollectorConfig())
        self.writer.start()
        self.session = self.store.session()
        names = ("node", "started_at", "ended_at", "gpu_uuid", "gpu_index", "batch")
        gpus = [[node, 1, 2, f"{node}-{index}", index, 0] for node in NODES for index in range(GPUS)]
        self.session.load("inventory", names, gpus)
        opened = open_slurm("alpha", SlurmReader(Commands(), form), EVERY_SECONDS)
        self.poller = Poller(f"slurm/alpha-{form}", opened, self.store, self.writer, EVERY_SECONDS)

    def poll(self) -> None:
        """Ask once."""
        assert self.poller.once(self.session), self.poller._failing

    def allocations(self) -> int:
        """Return how many rows of allocations were stored."""
        (rows,) = self.session.row("SELECT count(*) FROM allocations")
        return int(rows)

    def rows(self, job: object) -> list[Row]:
        """Return the last word on each GPU of a job, or on its waiting."""
        names = (
            "attempt, node, gpu_uuid, rank, submitted_at, started_at, ended_at, exit_status, requested_gpus, user, "
            "account, queue, name, time_limit_seconds, pending_reason, parent_run_id"
        )
        found = self.session.rows(
            f"""
            SELECT {names} FROM allocations WHERE run_id = ? AND gpu_fraction IS DISTINCT FROM 0
            QUALIFY row_number() OVER (
                PARTITION BY attempt, coalesce(gpu_uuid, node), started_at ORDER BY batch DESC) = 1
            ORDER BY attempt, started_at NULLS FIRST, gpu_uuid
            """,
            [f"slurm/alpha/{job}"],
        )
        return [dict(zip(names.split(", "), row, strict=True)) for row in found]

    def close(self) -> None:
        """End."""
        self.session.close()
        self.writer.close()
        self.store.close()


@dataclass(frozen=True)
class Gate:
    """What jobs wait for before they end."""

    path: Path

    @property
    def script(self) -> str:
        """A script that ends when the gate is opened."""
        return f"while [ ! -e {self.path} ]; do sleep 0.1; done"

    def open(self) -> None:
        """Let them end."""
        self.path.touch()


@pytest.fixture(autouse=True)
def at_this_slurm(slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the collector's commands find this cluster, as a service's environment does."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])


@pytest.fixture(params=["json", "text"])
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    """Return a poller for each form."""
    made = Watched(request.param)
    yield made
    made.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Return a gate, which opens at the end at the latest."""
    made = Gate(tmp_path / "go")
    yield made
    made.open()


def slurm_says(slurm: Cluster, job: int) -> dict[str, str]:
    """Return what `scontrol` itself prints of a job."""
    text = slurm.run("scontrol", "-d", "show", "job", str(job))
    return dict(part.split("=", 1) for part in text.split() if "=" in part)


def accounting_says(slurm: Cluster, job: object, field: str) -> list[str]:
    """Return a field of each record that accounting has of a job."""
    return slurm.run("sacct", "-n", "-X", "-P", "--duplicates", "-j", str(job), f"--format={field}").split()


def test_a_job_over_two_hosts_holds_the_gpus_that_slurm_says(slurm: Cluster, watched: Watched, gate: Gate) -> None:
    """From the controller's numbers to the driver's names, in the order of the ranks, and to the end."""
    job = slurm.submit(gate.script, "--gres=gpu:2", "-N2", "-w", "n[2-3]", "--time=60", "-J", "two hosts | 1")
    slurm.wait_for(RUNNING=[job])
    watched.poll()
    held = [row for row in watched.rows(job) if row["started_at"]]
    said = slurm_says(slurm, job)
    assert said["GRES"].startswith("gpu:h100:2(IDX:")
    numbers = said["GRES"].split("IDX:")[1].strip(")").split("-")
    first, last = int(numbers[0]), int(numbers[-1])
    assert [row["gpu_uuid"] for row in held] == [f"{node}-{gpu}" for node in ("n2", "n3") for gpu in (first, last)]
    assert [row["rank"] for row in held] == [0, 1, 2, 3]
    expected = {"user": getpass.getuser(), "account": "vision", "queue": "train", "name": "two hosts | 1"}
    assert expected.items() <= held[0].items()
    assert (held[0]["requested_gpus"], held[0]["time_limit_seconds"], held[0]["ended_at"]) == (4, 3600.0, None)
    gate.open()
    slurm.wait_for(COMPLETED=[job])
    slurm.wait(lambda: accounting_says(slurm, job, "State") == ["COMPLETED"], "accounting")
    watched.poll()
    ended = [row for row in watched.rows(job) if row["started_at"]]
    assert [row["gpu_uuid"] for row in ended] == [row["gpu_uuid"] for row in held]
    assert {row["exit_status"] for row in ended} == {"completed"}
    assert {row["ended_at"] - row["started_at"] for row in ended} == {
        int(accounting_says(slurm, job, "ElapsedRaw")[0]) * 1_000_000
    }


def test_an_array_and_a_heterogeneous_job_have_the_names_that_slurm_prints(
    slurm: Cluster, watched: Watched, gate: Gate
) -> None:
    """And hosts, which see other numbers, are told whose they are."""
    array = slurm.submit(gate.script, "--gres=gpu:1", "--array=1-4%2", "-J", "sweep")
    script = str(slurm.here / "job.sh")
    parts = ("--gres=gpu:1", ":", "--gres=gpu:2", "-n1", script)
    het = int(slurm.run("sbatch", "--parsable", "-o", "/dev/null", "-A", "vision", "-J", "het", *parts))
    slurm.wait_for(RUNNING=[f"{array}_1", f"{array}_2", f"{het}+0", f"{het}+1"])
    watched.poll()
    for name in (f"{array}_1", f"{array}_2", f"{het}+0", f"{het}+1"):
        held = [row for row in watched.rows(name) if row["started_at"]]
        assert len(held) == (2 if name == f"{het}+1" else 1), name
        assert held[0]["parent_run_id"] == f"slurm/alpha/{name.replace('+', '_').split('_')[0]}"
    (rest,) = watched.rows(array)
    assert (rest["pending_reason"], rest["requested_gpus"], rest["started_at"]) == ("JobArrayTaskLimit", 2, None)
    names = dict(watched.session.rows("SELECT alias_run_id, run_id FROM run_aliases"))
    numbers = dict(line.split() for line in slurm.run("squeue", "-h", "-r", "-o", "%i %A").splitlines())
    for name in (f"{array}_1", f"{array}_2", f"{het}+0", f"{het}+1"):
        assert names[f"slurm/alpha/{numbers[name]}"] == f"slurm/alpha/{name}"
    slurm.run("scancel", str(array), str(het))


def test_each_way_to_end_has_its_word(slurm: Cluster, watched: Watched, gate: Gate) -> None:
    """Failed, cancelled, preempted by an urgent job, and lost with its host."""
    failed = slurm.submit("exit 3", "--gres=gpu:1", "-w", "n2")
    cancelled = slurm.submit(gate.script, "--gres=gpu:1", "-w", "n2")
    waiting = slurm.submit(gate.script, "--gres=gpu:4", "-N3", "-H")
    pushed = slurm.submit(gate.script, "--gres=gpu:4", "-w", "n3", "--no-requeue")
    slurm.wait_for(FAILED=[failed], RUNNING=[cancelled, pushed], PENDING=[waiting])
    watched.poll()
    assert [row["pending_reason"] for row in watched.rows(waiting)] == ["JobHeldUser"]
    urgent = slurm.submit(gate.script, "--gres=gpu:4", "-w", "n3", "-p", "urgent", "--no-requeue")
    slurm.run("scancel", str(cancelled), str(waiting))
    slurm.wait_for(PREEMPTED=[pushed], RUNNING=[urgent], CANCELLED=[cancelled, waiting])
    watched.poll()
    slurm.run("scontrol", "update", "nodename=n3", "state=down", "reason=power supply")
    slurm.wait_for(NODE_FAIL=[urgent])
    watched.poll()
    gate.open()  # Slurm cannot end what runs on a host that is down
    slurm.run("scontrol", "update", "nodename=n3", "state=resume")
    jobs = {"failed": failed, "cancelled": cancelled, "preempted": pushed, "node_failed": urgent}
    assert {word: watched.rows(job)[-1]["exit_status"] for word, job in jobs.items()} == {word: word for word in jobs}
    ends = watched.rows(waiting)
    assert [(row["started_at"], row["exit_status"]) for row in ends] == [(None, "cancelled")]
    assert ends[0]["ended_at"] is not None


def test_a_requeued_job_has_two_attempts(slurm: Cluster, watched: Watched, gate: Gate) -> None:
    """Slurm writes the second over the first, and only accounting keeps both."""
    job = slurm.submit(gate.script, "--gres=gpu:1")
    slurm.wait_for(RUNNING=[job])
    watched.poll()
    slurm.requeue(job)
    watched.poll()
    first, second = (row for row in watched.rows(job) if row["started_at"])
    assert (first["attempt"], second["attempt"]) == (0, 1)
    assert first["ended_at"] is not None
    assert first["ended_at"] <= second["started_at"]
    assert (first["exit_status"], second["exit_status"], second["ended_at"]) == ("cancelled", None, None)
    slurm.run("scancel", str(job))


def test_a_host_that_is_taken_out_of_service_is_told_with_the_reason(slurm: Cluster, watched: Watched) -> None:
    """The ledger then books its GPUs as drained, and says why."""
    watched.poll()
    slurm.run("scontrol", "update", "nodename=n2", "state=drain", "reason=bad GPU 3")
    try:
        watched.poll()
        watched.poller._close()
        told = watched.session.rows("SELECT node, state, reason FROM node_states WHERE node = 'n2' ORDER BY ended_at")
        assert ("n2", "up", None) in told
        slurm.wait(lambda: watched.poller.once(watched.session), "a poll")
        watched.poller._close()
        told = watched.session.rows("SELECT node, state, reason FROM node_states WHERE node = 'n2' ORDER BY ended_at")
        assert told[-1] == ("n2", "drained", "bad GPU 3")
    finally:
        slurm.run("scontrol", "update", "nodename=n2", "state=resume")


def test_asking_a_quiet_cluster_again_writes_nothing(slurm: Cluster, watched: Watched, gate: Gate) -> None:
    """The store must not grow by being kept up to date."""
    job = slurm.submit(gate.script, "--gres=gpu:3")
    slurm.wait_for(RUNNING=[job])
    told: list[int] = []

    def is_quiet() -> bool:
        """Whether four polls in a row wrote nothing: what earlier tests ended may reach accounting between two."""
        watched.poll()
        told.append(watched.allocations())
        return told[-4:] == 4 * told[-1:]

    slurm.wait(is_quiet, "four polls that write nothing")
    slurm.run("scancel", str(job))


def test_a_job_s_processes_are_attributed_to_the_run_that_slurm_says(
    slurm: Cluster, watched: Watched, gate: Gate, tmp_path: Path
) -> None:
    """The agent's word, from the cgroup or the environment, and the cluster's word are one name."""
    array = slurm.submit(f"echo $$ > {tmp_path}/$SLURM_ARRAY_TASK_ID; {gate.script}", "--gres=gpu:1", "--array=1-2")
    tasks = [f"{array}_1", f"{array}_2"]
    slurm.wait_for(RUNNING=tasks)
    pids = [tmp_path / "1", tmp_path / "2"]
    slurm.wait(lambda: all(path.exists() and path.read_text().strip() for path in pids), "the tasks to say their pids")
    watched.poll()
    names = dict(watched.session.rows("SELECT alias_run_id, run_id FROM run_aliases"))
    for task, path in zip(tasks, pids, strict=True):
        process = read_process(Path("/proc"), int(path.read_text()), 0)
        assert process is not None
        assert watched.rows(task), task
        seen = attribute(process, HostIdentity("n1", "alpha"))
        assert seen.run_id == f"slurm/alpha/{task}"
        if slurm.tracked_by == "cgroup":  # an agent without rights sees no environment, and has the raw number alone
            blind = attribute(Process(process.pid, 0, process.cgroup), HostIdentity("n1", "alpha"))
            assert (blind.scheduler, names[blind.run_id]) == ("cgroup", f"slurm/alpha/{task}")
    slurm.run("scancel", str(array))


def test_the_prolog_of_the_documentation_tells_who_holds_what(slurm: Cluster, gate: Gate) -> None:
    """A GPU that is held and not used is seen by the agent of its host, without any right; afterwards it is free."""
    job = slurm.submit(gate.script, "--gres=gpu:2", "-w", "n2")
    slurm.wait_for(RUNNING=[job])
    numbers = slurm_says(slurm, job)["GRES"].split("IDX:")[1].strip(")").split("-")
    directory = slurm.here / "gpustat-n2"
    slurm.wait(lambda: len(list(directory.glob("[0-9]"))) >= 2, "the prolog")
    devices = Devices([Device(f"GPU-{number}", int(number), minor=int(number)) for number in "0123"])
    told = Jobstats(directory, "alpha", lambda: devices).read()
    assert told is not None
    ours = {held.gpu_uuid: held.attribution for held in told.held if held.attribution.run_id == f"slurm/alpha/{job}"}
    assert sorted(ours) == [f"GPU-{number}" for number in numbers]
    assert {one.owner for one in ours.values()} == {getpass.getuser()}
    gate.open()
    slurm.wait_for(COMPLETED=[job])
    slurm.wait(lambda: not any((directory / number).exists() for number in numbers), "the epilog")


@pytest.mark.soak
def test_a_job_that_runs_out_of_time_is_told_so(slurm: Cluster, watched: Watched) -> None:
    """Slurm counts limits in minutes, looks every half, and gives a job time to end: some two minutes."""
    slurm.wait(lambda: slurm.states()[str(slurm.hopeless)] == "TIMEOUT", "the limit of a minute", 4 * PATIENCE_SECONDS)
    watched.poll()
    assert [row["exit_status"] for row in watched.rows(slurm.hopeless) if row["started_at"]] == ["timeout"]
