"""Slurm's jobs and the GPUs they were given, from cgroup trees and environments in Slurm's forms."""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.attribution.devices import Device, Devices, GpuProcess, SchedulerNumbers
from agent.attribution.evidence import KEYS, Process
from agent.attribution.jobs import EAGER_READINGS, LATER_READINGS, SlurmJobs, gpus_told
from agent.attribution.providers import Meant, ProviderReport
from agent.attribution.run import SHARDS, HostIdentity, attribute, job

GPUS = [f"GPU-5f2d7a10-000{n}" for n in range(4)]
MIG = "MIG-9c1b2a3d-0000-5555-8888-1f0d5e3c0001"
DEVICES = Devices([Device(uuid, n, minor=n) for n, uuid in enumerate(GPUS)])
PLACE = HostIdentity("n14", "alpha")

V2 = "system.slice/slurmstepd.scope/job_{}"
SEVERAL = "system.slice/n14b_slurmstepd.scope/job_{}"
V1 = "memory/slurm/uid_1000/job_{}"
V1_SEVERAL = "memory/slurm_n14b/uid_1000/job_{}"


def gpus_of_job(process: Process, devices: Devices) -> tuple[str, ...]:
    """Return what a process knows of its job's GPUs here: the whole share, else its step's."""
    whole, steps = gpus_told([process], devices)
    return tuple(dict.fromkeys(whole or steps))


class SlurmHost:
    """A host with Slurm's cgroups."""

    def __init__(self, at: Path) -> None:
        self.proc, self.sys = at / "proc", at / "sys"
        self.proc.mkdir()
        self.jobs = SlurmJobs(lambda process: attribute(process, PLACE), lambda: DEVICES, self.proc, self.sys)

    def job(self, number: int, form: str = V2) -> Path:
        """Make the cgroup of a job."""
        place = self.sys / "fs/cgroup" / form.format(number)
        place.mkdir(parents=True, exist_ok=True)
        return place

    def process(self, pid: int, place: Path, step: str = "batch", **environment: str) -> None:
        """Begin a process in a step of a job."""
        directory = place / f"step_{step}/user/task_0"
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "cgroup.procs").open("a") as file:
            file.write(f"{pid}\n")
        path = "/" + str(directory.relative_to(self.sys / "fs/cgroup"))
        line = f"4:memory:{path.removeprefix('/memory')}" if path.startswith("/memory") else f"0::{path}"
        here = self.proc / str(pid)
        here.mkdir(exist_ok=True)
        (here / "cgroup").write_text(line + "\n")
        (here / "status").write_text("Name:\tpython\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-3\n")
        content = {"SLURM_JOB_ID": place.name.removeprefix("job_"), **environment}
        (here / "environ").write_text("".join(f"{key}={value}\0" for key, value in content.items()))


@pytest.fixture
def slurm(tmp_path: Path) -> SlurmHost:
    """Return a host with Slurm's cgroups."""
    return SlurmHost(tmp_path)


def held(told: ProviderReport | None) -> set[tuple[str, str]]:
    """Return run and GPU of what was told."""
    assert told is not None
    return {(one.attribution.run_id, one.gpu_uuid) for one in told.held}


@pytest.mark.parametrize("form", [V2, SEVERAL, V1, V1_SEVERAL])
def test_a_job_holds_what_it_was_given(slurm: SlurmHost, form: str) -> None:
    """Idle or not: a job whose script still downloads its data holds its GPUs."""
    slurm.process(50, slurm.job(81234, form), SLURM_JOB_GPUS="0,2")
    assert held(slurm.jobs.read()) == {("slurm/alpha/81234", GPUS[0]), ("slurm/alpha/81234", GPUS[2])}


def test_several_slurmd_on_one_host_count_each_from_0(slurm: SlurmHost) -> None:
    """Seen on Slurm 22.05: the numbers are positions in the daemon's own list. Nothing is better than another's GPU."""
    slurm.process(50, slurm.job(81234, SEVERAL), SLURM_JOB_GPUS="0")
    slurm.process(51, slurm.job(81235), SLURM_JOB_GPUS="0")
    slurm.process(52, slurm.job(81236), CUDA_VISIBLE_DEVICES=GPUS[2])
    assert held(slurm.jobs.read()) == {("slurm/alpha/81236", GPUS[2])}


def test_the_jobs_share_comes_before_a_steps(slurm: SlurmHost) -> None:
    """A step may have been given but a part of what the job holds."""
    place = slurm.job(81234)
    slurm.process(50, place, "0", SLURM_STEP_GPUS="0")
    slurm.process(51, place, SLURM_JOB_GPUS="0,1")
    assert held(slurm.jobs.read()) == {("slurm/alpha/81234", GPUS[0]), ("slurm/alpha/81234", GPUS[1])}


def test_shares_of_steps_add_up_where_the_jobs_is_not_known(slurm: SlurmHost) -> None:
    """srun without a batch script has no SLURM_JOB_GPUS of its own."""
    place = slurm.job(81234)
    slurm.process(50, place, "0", SLURM_STEP_GPUS="0")
    slurm.process(51, place, "1", SLURM_STEP_GPUS="1")
    assert held(slurm.jobs.read()) == {("slurm/alpha/81234", GPUS[0]), ("slurm/alpha/81234", GPUS[1])}


def test_a_later_step_adds_its_share_where_the_jobs_is_not_known(slurm: SlurmHost) -> None:
    """On further hosts steps alone know the numbers there; what one has had stays the job's when it ends."""
    place = slurm.job(81234)
    further = {"SLURM_JOB_GPUS": "0,1", "SLURM_JOB_NUM_NODES": "2"}
    slurm.process(50, place, "0", SLURM_STEP_GPUS="2", **further)
    assert held(slurm.jobs.read()) == {("slurm/alpha/81234", GPUS[2])}
    slurm.process(51, place, "1", SLURM_STEP_GPUS="3", **further)
    (place / "step_0/user/task_0/cgroup.procs").write_text("")
    for _ in range(LATER_READINGS):
        told = held(slurm.jobs.read())
    assert told == {("slurm/alpha/81234", GPUS[2]), ("slurm/alpha/81234", GPUS[3])}


@pytest.mark.parametrize("form", [V2, V1])
@pytest.mark.parametrize("files", [0, 70])
def test_every_step_of_a_job_is_seen_however_much_lies_beside_it(slurm: SlurmHost, form: str, files: int) -> None:
    """A cgroup of version 2 has some seventy files of its own; and one step may have hundreds of processes."""
    place = slurm.job(81234, form)
    further = {"SLURM_JOB_GPUS": "0", "SLURM_JOB_NUM_NODES": "2"}
    slurm.process(40, place, "extern")
    for step in range(4):
        for number in range(100 if step == 0 else 1):
            slurm.process(100 * (step + 1) + number, place, str(step), SLURM_STEP_GPUS=str(step), **further)
    for directory in [place, *(each for each in place.rglob("*") if each.is_dir())]:
        for number in range(files):
            (directory / f"memory.{number}").touch()
    assert held(slurm.jobs.read()) == {("slurm/alpha/81234", gpu) for gpu in GPUS}


def test_numbers_of_another_host_are_not_taken_for_this_ones(slurm: SlurmHost) -> None:
    """srun hands the batch script's environment to every host, where the job may hold other GPUs."""
    place = slurm.job(81234)
    slurm.process(50, place, "0", SLURM_JOB_GPUS="0,1", SLURM_STEP_GPUS="3", SLURM_JOB_NUM_NODES="2")
    assert held(slurm.jobs.read()) == {("slurm/alpha/81234", GPUS[3])}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"CUDA_VISIBLE_DEVICES": f"{GPUS[0]},{GPUS[1]}"}, (GPUS[0], GPUS[1])),
        ({"CUDA_VISIBLE_DEVICES": MIG}, (MIG,)),
        ({"CUDA_VISIBLE_DEVICES": f"GPU-5f2d7a10-0001,{MIG}"}, (GPUS[1], MIG)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-5f2d7a10-00"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "GPU-none"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, ()),
        ({"SLURM_STEP_GPUS": GPUS[2]}, (GPUS[2],)),
        ({"SLURM_STEP_GPUS": "9"}, ()),
        ({"SLURM_STEP_GPUS": "0,x"}, ()),
        ({"SLURM_STEP_GPUS": "0", "SLURM_JOB_ID": "5"}, ()),
        ({}, ()),
    ],
)
def test_only_what_names_gpus_of_this_host_counts(environment: dict[str, str], expected: tuple[str, ...]) -> None:
    """Within a job's device cgroup CUDA counts from 0, whichever GPUs they are; UUIDs (Slurm 25.11) are sure."""
    process = Process(50, 1, "0::/" + V2.format(81234) + "/step_0\n", {"SLURM_JOB_ID": "81234"} | environment)
    assert gpus_of_job(process, DEVICES) == expected


def test_numbers_of_divided_gpus_name_none() -> None:
    """Slurm counts MIG instances along with GPUs; their UUIDs are in CUDA_VISIBLE_DEVICES."""
    divided = Devices([Device(GPUS[0], 0), Device(MIG, 0, GPUS[0], 7)])
    environment = {"SLURM_JOB_ID": "81234", "SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": MIG}
    assert gpus_of_job(Process(50, 1, "0::/" + V2.format(81234) + "/step_batch\n", environment), divided) == (MIG,)


def test_an_empty_cgroup_holds_nothing(slurm: SlurmHost) -> None:
    """Slurm may leave one behind; nobody can say what it was given."""
    slurm.job(81234)
    assert held(slurm.jobs.read()) == set()


def test_a_host_without_slurm_says_nothing(slurm: SlurmHost) -> None:
    """It has no age either."""
    assert slurm.jobs.read() is None


def test_a_job_that_ends_gives_all_back(slurm: SlurmHost, tmp_path: Path) -> None:
    """Its cgroup goes with its last process."""
    place = slurm.job(81234)
    slurm.process(50, place, SLURM_JOB_GPUS="0")
    slurm.jobs.read()
    place.rename(tmp_path / "gone")
    assert held(slurm.jobs.read()) == set()
    assert slurm.jobs.read() is None


def test_a_known_job_is_not_looked_at_again(slurm: SlurmHost) -> None:
    """An environment is read once in the life of a job; thousands of processes may come and go in it."""
    slurm.process(50, slurm.job(81234), SLURM_JOB_GPUS="0")
    slurm.jobs.read()
    (slurm.proc / "50/environ").write_text("SLURM_JOB_ID=81234\0SLURM_JOB_GPUS=1\0")
    assert held(slurm.jobs.read()) == {("slurm/alpha/81234", GPUS[0])}


def test_a_job_that_cannot_be_read_is_looked_at_more_and_more_rarely(slurm: SlurmHost) -> None:
    """Its script begins after its cgroup; another user's environment stays closed for good."""
    place = slurm.job(81234)
    for _ in range(EAGER_READINGS):
        slurm.jobs.read()
    slurm.process(50, place, SLURM_JOB_GPUS="0")
    readings = 1
    while not held(slurm.jobs.read()):
        readings += 1
    assert readings == LATER_READINGS - EAGER_READINGS + 1


def test_an_array_task_has_two_names(slurm: SlurmHost) -> None:
    """Mapping files and cgroups know 81241, people and accounting know 81234_7."""
    slurm.process(50, slurm.job(81241), SLURM_JOB_GPUS="0", SLURM_ARRAY_JOB_ID="81234", SLURM_ARRAY_TASK_ID="7")
    told = slurm.jobs.read()
    assert held(told) == {("slurm/alpha/81234_7", GPUS[0])}
    assert told is not None
    assert told.names == {"slurm/alpha/81241": Meant("slurm/alpha/81234_7")}


def test_shards_are_a_label() -> None:
    """How many parts were asked for is known, of how many is not: no fraction is made up."""
    found = attribute(Process(50, 1, "0::/" + V2.format(7) + "\n", {"SLURM_SHARDS_ON_NODE": "2"}), PLACE)
    assert found.labels == {SHARDS: "2"}


@pytest.mark.parametrize(
    ("cgroup", "number", "step", "directory"),
    [
        ("0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_special\n", "7", "batch", "slurmstepd.scope"),
        ("0::/system.slice/slurmstepd.scope/job_7\n", "7", None, "slurmstepd.scope"),
        ("4:memory:/n14b_slurm/uid_0/job_7/step_0/task_0\n", "7", "0", "uid_0"),
        ("4:memory:/slurm_n14b/uid_0/job_7/step_extern/task_0\n", "7", "extern", "uid_0"),
    ],
)
def test_steps_are_told_and_are_no_part_of_the_jobs_directory(
    cgroup: str, number: str, step: str | None, directory: str
) -> None:
    """Counters are the job's; which step a process is of says what its environment knows."""
    found = job(cgroup)
    assert found is not None
    assert (found.id, found.step) == (number, step)
    assert {Path(path).parts[-2:] for path in found.directories.values()} == {(directory, f"job_{number}")}


@given(st.dictionaries(st.sampled_from(sorted(KEYS)), st.text("0123456789,GPUMIG-abc/ _", max_size=40)))
def test_any_environment_of_a_job_is_taken_in_peace(environment: dict[str, str]) -> None:
    """Users write their environments; no run of theirs may bear a name that ends elsewhere in a URL or a terminal."""
    process = Process(50, 7, "0::/" + V2.format(81234) + "/step_batch\n", environment, parent=(49, 6))
    assert all(uuid in GPUS or uuid.startswith(("GPU-", "MIG-")) for uuid in gpus_of_job(process, DEVICES))
    for one in (process, replace(process, cgroup="")):
        run_id = attribute(one, PLACE).run_id
        assert re.fullmatch(r"[a-z]+(/[A-Za-z0-9._+:-]+){2,3}", run_id), run_id


def space_of(chance: random.Random, count: int) -> tuple[list[int], dict[str, int]]:
    """Return the order of device files of a host: as the driver's, as it often is, or any other."""
    order = list(range(count))
    if chance.random() < 0.6:
        chance.shuffle(order)
    return order, {f"GPU-{index}": minor for index, minor in enumerate(order)}


@pytest.mark.parametrize("seed", range(200))
def test_a_job_never_holds_a_gpu_by_a_number_of_another_space(tmp_path: Path, seed: int) -> None:
    """Two hundred hosts: numbers are the driver's or those of device files, and the agent is not told which."""
    chance = random.Random(seed)
    count = chance.randint(1, 8)
    order, minors = space_of(chance, count)
    meant = chance.choice(["index", "minor"])
    slurm, numbers = SlurmHost(tmp_path), SchedulerNumbers()
    devices = Devices([Device(f"GPU-{index}", index) for index in range(count)], minors, numbers)
    truth: dict[str, set[str]] = {}
    seen: list[GpuProcess] = []
    free = list(range(count))
    chance.shuffle(free)
    for number in range(chance.randint(1, 4)):
        mine, free = free[: chance.randint(1, 3)], free[3:]
        if not mine:
            break
        gpus = [f"GPU-{each if meant == 'index' else order.index(each)}" for each in mine]
        truth[f"slurm/alpha/{number}"] = set(gpus)
        slurm.process(50 + number, slurm.job(number), SLURM_JOB_GPUS=",".join(map(str, mine)))
        if chance.random() < 0.5:
            seen += [GpuProcess(gpu, 50 + number) for gpu in gpus[: chance.randint(1, 3)]]
    jobs = SlurmJobs(
        lambda process: attribute(process, PLACE), lambda: devices, slurm.proc, slurm.sys, lambda: seen, numbers
    )
    for _ in range(2):
        told = held(jobs.read())
    found = {run: {gpu for holder, gpu in told if holder == run} for run in truth}
    agree = order == list(range(count))
    for run, gpus_held in found.items():
        assert gpus_held in (set(), truth[run])
        assert gpus_held or not (agree or numbers.meaning)
    assert numbers.meaning in (None, meant)
    if not agree and not numbers.meaning and set() in found.values():
        assert numbers.coverage()
