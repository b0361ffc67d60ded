"""Which job a cgroup is of, as schedulers and engines of several versions spell it, under cgroup v1, v2 and both."""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.attribution.devices import GpuProcess
from agent.attribution.evidence import Process
from agent.attribution.jobs import SlurmJobs
from agent.attribution.run import HostIdentity, attribute, container, job
from agent.sources.processes import ProcessSource
from tests.agent.sources.conftest import told
from tests.agent.sources.test_attribution_slurm import DEVICES, GPUS, SlurmHost, held

PLACE = HostIdentity("n14", "alpha")
UID = "0a1b2c3d-1111-2222-3333-0123456789ab"
UNDERSCORED = UID.replace("-", "_")
FULL = "4f" * 32
POD, RUN = f"kubernetes/alpha/{UID}", "slurm/alpha/81234"

SPELLINGS = [  # path of the process, run
    ("/system.slice/slurmstepd.scope/job_81234/step_0/user/task_0", RUN),
    ("/system.slice/slurmstepd.scope/job_81234/step_batch/slurm", RUN),
    ("/system.slice/gpu1_slurmstepd.scope/job_81234/step_extern/user/task_special", RUN),
    ("/slurm.slice/slurmstepd.scope/job_81234/step_interactive/user/task_0", RUN),
    ("/site.slice/site-slurm.slice/slurmstepd-gpu1.scope/job_81234/step_0/user/task_0", RUN),
    ("/slurmstepd.scope/job_81234", RUN),
    ("/system.slice/slurmstepd.scope/uid_1000/job_81234/step_0", RUN),
    ("/slurm/uid_1000/job_81234/step_0/task_0", RUN),
    ("/slurm_gpu1/uid_0/job_81234/step_batch/task_0", RUN),
    ("/gpu1_slurm/uid_0/job_81234", RUN),
    ("/system.slice/slurmstepd.scope/job_sWBZRNE6QTR000/step_0/user/task_0", "slurm/alpha/sWBZRNE6QTR000"),
    ("/system.slice/slurmstepd.scope/sWBZRNE6QTR000/step_0/user/task_0", "slurm/alpha/sWBZRNE6QTR000"),
    ("/slurm/uid_1000/alloc-77.x/step_0", "slurm/alpha/alloc-77.x"),
    ("/system.slice/slurmstepd.scope/system", None),
    ("/system.slice/slurmstepd.scope", None),
    ("/system.slice/slurmd.service", None),
    ("/slurm/system", None),
    ("/pbs_jobs.service/jobid/81234.pbs01", "pbs/alpha/81234.pbs01"),
    ("/pbs_jobs.service/jobs/81234.pbs01/sub", "pbs/alpha/81234.pbs01"),
    ("/pbs_jobs.service/jobid/81234\\x5b7\\x5d.pbs01", "pbs/alpha/81234-7-.pbs01"),
    ("/pbspro.service/jobid/81234[7].pbs01", "pbs/alpha/81234-7-.pbs01"),
    ("/pbspro.slice/pbspro-81234.pbs01.slice", "pbs/alpha/81234.pbs01"),
    ("/altair.service/jobid/81234.pbs01", "pbs/alpha/81234.pbs01"),
    ("/system.slice/pbs.service", None),
    ("/lsf/hpc1/job.81234.4711.1795219200", "lsf/alpha/81234"),
    ("/system.slice/lsfd.service/lsf/hpc1/job.81234[7].4711.1795219200", "lsf/alpha/81234-7-"),
    ("/user.slice/user-900.slice/user@900.service/app.slice/imp-shell-0-f2Xc9vQ3d.service", "flux/alpha/f2Xc9vQ3d"),
    ("/user.slice/user-900.slice/user@900.service/shell-3-f2Xc9vQ3d.service", "flux/alpha/f2Xc9vQ3d"),
    ("/system.slice/flux.service", None),
    ("/htcondor/condor_var_lib_condor_execute_slot1_2@gpu1.site", "htcondor/n14/slot1_2.900.7"),
    ("/system.slice/condor.service/condor_scratch_slot3@gpu1", "htcondor/n14/slot3.900.7"),
    ("/system.slice/condor.service/htcondor/_scratch_execute_2_slot1_1@gpus@gpu1.site", "htcondor/n14/slot1_1.900.7"),
    ("/system.slice/condor.service/htcondor/_var_lib_condor_execute_gpu1_2@gpu1.site", "htcondor/n14/gpu1_2.900.7"),
    ("/hiprio_cgroup/condor_var_lib_condor_execute_slot1_2@gpu1", "htcondor/n14/slot1_2.900.7"),
    ("/system.slice/condor.service", None),
    ("/system.slice/htcondor-exporter@9100.service", None),
    (f"/kubepods/burstable/pod{UID}/{FULL}", POD),
    (f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDERSCORED}.slice/crio-{FULL}.scope", POD),
    (f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/cri-containerd-{FULL}.scope", POD),
    (f"/system.slice/containerd.service/kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:{FULL}", POD),
    (f"/docker/{FULL}/kubelet/kubepods/pod{UID}/{FULL[::-1]}", POD),
    (f"/kubepods/pod{UID}/{FULL}/system.slice/slurmstepd.scope/job_81234/step_0", RUN),
    (f"/system.slice/slurmstepd.scope/job_81234/step_0/user/task_0/libpod-{FULL}", RUN),
    (f"/docker/{FULL}", "container/n14/4f4f4f4f4f4f"),
    (f"/system.slice/docker-{FULL}.scope", "container/n14/4f4f4f4f4f4f"),
    (f"/site.slice/{FULL}", "container/n14/4f4f4f4f4f4f"),
    (f"/system.slice/nerdctl-{FULL}.scope", "container/n14/4f4f4f4f4f4f"),
    (f"/machine.slice/libpod-{FULL}.scope/container", "container/n14/4f4f4f4f4f4f"),
    (f"/user.slice/user@1000.service/user.slice/libpod-{FULL}.scope/container", "container/n14/4f4f4f4f4f4f"),
    (f"/user.slice/user@1000.service/app.slice/train.service/libpod-payload-{FULL}", "container/n14/4f4f4f4f4f4f"),
    (f"/machine.slice/libpod-conmon-{FULL}.scope", None),
    ("/user.slice/user-1000.slice/session-3.scope", None),
    ("/", None),
]  # fmt: skip
FORMS = {  # of the file of a process
    "v2": "0::{path}\n",
    "v1": "9:name=systemd:{path}\n4:memory:{path}\n3:cpu,cpuacct:{path}\n1:cpuset:/\n",
    "hybrid": "4:memory:{path}\n3:cpu,cpuacct:{path}\n1:name=systemd:{path}\n0::{path}\n",
    "hybrid without v2": "4:memory:{path}\n3:cpu,cpuacct:{path}\n0::/system.slice/a.service\n",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("path", "run_id"), SPELLINGS)
def test_a_job_is_known_by_its_path(path: str, run_id: str | None, form: str) -> None:
    """One spelling was known of each, and what had another was nobody's."""
    process = Process(50, 1, form.format(path=path), {}, 1000, "ada", starter=(900, 7))
    found = attribute(process, PLACE)
    assert found.run_id == (run_id or "process/n14/50.1")
    assert found.scheduler == ("process" if run_id is None or run_id.startswith("container/") else "cgroup")


def test_a_job_of_another_name_is_known_by_its_slurmstepd() -> None:
    """The directory's name is opaque; the title of root's process above is not. What a user sets proves nothing."""
    cgroup = "0::/system.slice/slurmstepd.scope/job_sWBZRNE6QTR000/step_0/user/task_0\n"
    environment = {"SLURM_JOB_ID": "81234", "SLURM_ARRAY_JOB_ID": "81200", "SLURM_ARRAY_TASK_ID": "7"}
    assert attribute(Process(50, 1, cgroup, environment, slurm_job="81234"), PLACE).run_id == "slurm/alpha/81200_7"
    assert attribute(Process(50, 1, cgroup, None, slurm_job="81234"), PLACE).run_id == RUN
    assert attribute(Process(50, 1, cgroup, {"SLURM_JOB_ID": "99"}), PLACE).run_id == "slurm/alpha/sWBZRNE6QTR000"


def test_what_a_process_in_a_container_declares_comes_before_the_container() -> None:
    """A container is how it is packed, not what it is."""
    process = Process(50, 1, f"0::/docker/{FULL}\n", {"GPULEDGER_RUN_ID": "train"}, 1000, "ada")
    assert attribute(process, PLACE).run_id == "declared/n14/1000/train"
    found = container(process.cgroup)
    assert found is not None
    assert found.directories == {"": f"/docker/{FULL}"}


@pytest.mark.parametrize(
    "form",
    [
        "system.slice/slurmstepd.scope/job_{}",
        "slurm.slice/slurmstepd.scope/job_{}",
        "a.slice/a-b.slice/n1_slurmstepd.scope/job_{}",
        "unified/system.slice/slurmstepd.scope/job_{}",
    ],
)
def test_jobs_below_any_slice_are_found(tmp_path: Path, form: str) -> None:
    """CgroupSlice is a setting."""
    slurm = SlurmHost(tmp_path)
    slurm.process(50, slurm.job(81234, form), SLURM_JOB_GPUS="1")
    (slurm.sys / "fs/cgroup" / form.format(0)).with_name("system").mkdir()
    if form.startswith("unified"):
        (slurm.proc / "50/cgroup").write_text("0::/system.slice/slurmstepd.scope/job_81234/step_batch/user/task_0\n")
    assert held(slurm.jobs.read()) == {(RUN, GPUS[1])}


@dataclass
class Stepd:
    """What is seen of the slurmstepd of an opaque job."""

    slurm: SlurmHost
    place: Path

    def start(self, pid: int, number: int) -> None:
        """Begin it, as root."""
        here = self.slurm.proc / str(pid)
        here.mkdir()
        (here / "cmdline").write_text(f"slurmstepd: [{number}.batch]\0")
        (here / "status").write_text("Name:\tslurmstepd\nPPid:\t1\nUid:\t0\t0\t0\t0\n")


def test_an_opaque_job_tells_its_number_as_an_alias(tmp_path: Path) -> None:
    """Whoever sees the directory alone (sockets, a process that left its parents) finds the job by it."""
    slurm = SlurmHost(tmp_path)
    place = slurm.sys / "fs/cgroup/system.slice/slurmstepd.scope/job_sWBZRNE6QTR000"
    place.mkdir(parents=True)
    slurm.process(50, place, SLURM_JOB_GPUS="1", SLURM_JOB_ID="81234")
    Stepd(slurm, place).start(40, 81234)
    status = slurm.proc / "50/status"
    status.write_text(status.read_text() + "PPid:\t40\n")
    told = slurm.jobs.read()
    assert held(told) == {(RUN, GPUS[1])}
    assert told is not None
    assert {name: meant.run_id for name, meant in told.names.items()} == {"slurm/alpha/sWBZRNE6QTR000": RUN}


def test_an_opaque_job_without_rights_is_an_alias_all_the_same(tmp_path: Path) -> None:
    """Titles can be read by everybody, environments cannot."""
    slurm = SlurmHost(tmp_path)
    place = slurm.sys / "fs/cgroup/system.slice/slurmstepd.scope/job_sWBZRNE6QTR000"
    place.mkdir(parents=True)
    slurm.process(50, place)
    (slurm.proc / "50/environ").unlink()
    Stepd(slurm, place).start(40, 81234)
    status = slurm.proc / "50/status"
    status.write_text(status.read_text() + "PPid:\t40\n")
    told = slurm.jobs.read()
    assert told is not None
    assert {name: meant.run_id for name, meant in told.names.items()} == {"slurm/alpha/sWBZRNE6QTR000": RUN}


WORDS = "abcdefghijklmnopqrstuvwxyz0123456789_."


def spelled(chance: random.Random, number: int) -> tuple[str, str]:
    """Return a path of a job as some scheduler may spell it, and its run."""
    word = "".join(chance.choice(WORDS) for _ in range(6)).strip(".") or "x"
    slices = chance.choice(["", "/system.slice", f"/{word}.slice", f"/{word}.slice/{word}-{word}.slice"])
    below = chance.choice(["", "/step_0", "/step_batch/user/task_0", f"/step_extern/{word}"])
    name = chance.choice([str(number), f"s{number}{word.upper()}"])
    prefix = chance.choice(["job_", ""])
    kind = chance.choice(["v2", "v1", "pbs", "lsf", "flux", "pod", "container"])
    if kind == "v2":
        scope = chance.choice(["slurmstepd", f"{word}_slurmstepd", f"slurmstepd_{word}"])
        return f"{slices}/{scope}.scope/{prefix}{name}{below}", f"slurm/alpha/{name}"
    if kind == "v1":
        root = chance.choice(["slurm", f"slurm_{word}", f"{word}_slurm"])
        return f"/{root}/uid_{chance.randint(0, 99)}/{prefix}{name}{below}", f"slurm/alpha/{name}"
    if kind == "pbs":
        return (
            f"{slices}/pbs_jobs.service/{chance.choice(['jobid', 'jobs'])}/{number}.{word}",
            f"pbs/alpha/{number}.{word}",
        )
    if kind == "lsf":
        return f"{slices}/lsf/{word}/job.{number}.{chance.randint(1, 9)}.17", f"lsf/alpha/{number}"
    if kind == "flux":
        return f"/user.slice/u.service/imp-shell-{chance.randint(0, 9)}-f{number}.service", f"flux/alpha/f{number}"
    if kind == "pod":
        uid = f"{number:08x}-0000-4000-8000-{number:012x}"
        return f"{slices}/kubepods/{chance.choice(['', 'burstable/'])}pod{uid}/{number:064x}", f"kubernetes/alpha/{uid}"
    engine = chance.choice(["docker", "libpod", "nerdctl"])
    return f"{slices}/{engine}-{number:064x}.scope", f"container/n14/{number:064x}"[:26]


@pytest.mark.parametrize("seed", range(200))
def test_every_process_of_a_host_is_in_the_job_of_its_path(seed: int) -> None:
    """Two hundred hosts of twenty jobs: none is nobody's, and none is another's."""
    chance = random.Random(seed)
    for number in chance.sample(range(1, 10**6), 20):
        path, run_id = spelled(chance, number)
        cgroup = chance.choice(list(FORMS.values())).format(path=path)
        assert attribute(Process(50, 1, cgroup, {}, 1000), PLACE).run_id == run_id
        if found := job(cgroup):
            assert all(path.startswith(directory) for directory in found.directories.values())


def test_a_slurm_of_another_site_is_not_looked_for_in_this_host_s_services(tmp_path: Path) -> None:
    """Directories beside the scopes are no jobs."""
    (tmp_path / "fs/cgroup/system.slice/slurmd.service/job_1").mkdir(parents=True)
    (tmp_path / "fs/cgroup/system.slice/slurmstepd.scope/system").mkdir(parents=True)
    jobs = SlurmJobs(lambda process: attribute(process, PLACE), lambda: DEVICES, tmp_path, tmp_path)
    assert jobs.read() is None


def test_a_container_s_figures_are_those_of_its_cgroup(tmp_path: Path) -> None:
    """Its processes are one run, and so is what they use."""
    inside = f"/system.slice/docker-{FULL}.scope"
    for pid in (50, 51):
        here = tmp_path / f"proc/{pid}"
        here.mkdir(parents=True)
        (here / "stat").write_text(f"{pid} (python) S 1 " + "0 " * 17 + f"{pid} " + "0 " * 20)
        (here / "status").write_text("Uid:\t0\n")
        (here / "cgroup").write_text(f"0::{inside}\n")
    place = tmp_path / f"sys/fs/cgroup{inside}"
    place.mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
    (place / "memory.current").write_text("4096\n")
    source = ProcessSource(
        lambda: told([GpuProcess("GPU-a", 50), GpuProcess("GPU-b", 51)]),
        lambda process: attribute(process, PLACE),
        lambda: 1,
        proc=tmp_path / "proc",
        sys=tmp_path / "sys",
    )
    reading = source.read()
    assert {row["run_id"] for row in reading["allocations"]} == {"container/n14/4f4f4f4f4f4f"}
    (row,) = reading["run_samples"]
    assert (row["run_id"], row["memory_used_bytes"]) == ("container/n14/4f4f4f4f4f4f", 4096)


def test_a_child_that_may_not_be_read_is_of_the_run_above_it_and_not_of_their_container(tmp_path: Path) -> None:
    """What its parent declares is nearer than how both are packed; the run has no cgroup of its own then."""
    for pid, parent, environ in ((50, 1, "GPULEDGER_RUN_ID=train\0"), (51, 50, None)):
        here = tmp_path / f"proc/{pid}"
        here.mkdir(parents=True)
        (here / "stat").write_text(f"{pid} (python) S {parent} " + "0 " * 17 + f"{pid} " + "0 " * 20)
        (here / "status").write_text("Uid:\t1000\n")
        (here / "cgroup").write_text(f"0::/system.slice/docker-{FULL}.scope\n")
        if environ is not None:
            (here / "environ").write_text(environ)
    source = ProcessSource(
        lambda: told([GpuProcess("GPU-a", 50), GpuProcess("GPU-b", 51)]),
        lambda process: attribute(process, PLACE),
        lambda: 1,
        proc=tmp_path / "proc",
        sys=tmp_path / "sys",
    )
    assert {row["run_id"] for row in source.read()["allocations"]} == {"declared/n14/1000/train"}
