import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.attribution.evidence import (
    KEYS,
    Process,
    RayWorker,
    allowed,
    declared_run_id,
    list_length,
    read_process,
    slurm_job_above,
    user_name,
)
from agent.attribution.run import Attribution, HostIdentity, attribute, controller_paths, job

PLACE = HostIdentity("n14", "alpha")
UID = "0a1b2c3d-1111-2222-3333-0123456789ab"
UNDERSCORED = UID.replace("-", "_")
ADA = 1001
SLURM = "0::/system.slice/slurmstepd.scope/job_81234/step_0/user/task_0\n"


@pytest.mark.parametrize(
    ("cgroup", "number", "directories"),
    [
        (SLURM, "81234", {"": "/system.slice/slurmstepd.scope/job_81234"}),
        (
            "0::/system.slice/gpu1_slurmstepd.scope/job_7/step_batch/user/task_special\n",
            "7",
            {"": "/system.slice/gpu1_slurmstepd.scope/job_7"},
        ),
        (
            "9:name=systemd:/\n4:memory:/slurm/uid_1000/job_81234/step_0/task_0\n1:cpu,cpuacct:/slurm/uid_1000/job_81234\n",
            "81234",
            dict.fromkeys(("memory", "cpu", "cpuacct"), "/slurm/uid_1000/job_81234"),
        ),
        ("4:memory:/slurm_gpu1/uid_0/job_4/step_0/task_0\n0::/\n", "4", {"memory": "/slurm_gpu1/uid_0/job_4"}),
    ],
)
def test_slurm_jobs_are_known_by_their_cgroup(cgroup: str, number: str, directories: dict[str, str]) -> None:
    """Version 2, version 1, and several slurmd on one host each put the job at another place."""
    found = job(cgroup)
    assert found is not None
    assert (found.scheduler, found.id, found.directories) == ("slurm", number, directories)


@pytest.mark.parametrize(
    ("path", "pod"),
    [
        (f"/kubepods/burstable/pod{UID}/abcdef", f"/kubepods/burstable/pod{UID}"),
        (f"/kubepods/pod{UID}/abcdef", f"/kubepods/pod{UID}"),
        (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice/cri-containerd-ab.scope",
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice",
        ),
        (
            f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/crio-ab.scope/container",
            f"/kubepods.slice/kubepods-pod{UNDERSCORED}.slice",
        ),
        (
            f"/system.slice/containerd.service/kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:ab",
            f"/system.slice/containerd.service/kubepods-burstable-pod{UNDERSCORED}.slice:cri-containerd:ab",
        ),
        (
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice/cri-containerd-ab.scope",
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice",
        ),
    ],
)
@pytest.mark.parametrize("line", ["0::{}\n", "0::/\n11:memory:{}\n"])
def test_pods_are_known_by_their_cgroup(line: str, path: str, pod: str) -> None:
    """Kubelets drive cgroupfs or systemd, and systemd writes dashes as underscores."""
    found = job(line.format(path))
    assert found is not None
    assert (found.scheduler, found.id, set(found.directories.values())) == ("kubernetes", UID, {pod})


def test_a_static_pod_is_known_by_its_hash() -> None:
    """Pods from a kubelet's manifest folder have a hash of 32 digits for a uid."""
    found = job("0::/kubepods/besteffort/pod0123456789abcdef0123456789abcdef/c\n")
    assert found is not None
    assert found.id == "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    "cgroup",
    [
        "",
        "0::/\n",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        "0::/system.slice/slurmstepd.scope/system\n",
        "0::/system.slice/slurmd.service\n",
        "0::/user.slice/job_7\n",
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/slurmstepd.scope/job_7/step_0\n",
        "0::/user.slice/user-1000.slice/user@1000.service/slurm/uid_1001/job_7\n",
        f"0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}/c\n",
        "0::/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
        "0::/kubepods/burstable/podnonsense/c\n",
        "no colons here\n",
    ],
)
def test_other_cgroups_name_no_run(cgroup: str) -> None:
    """A session, a daemon of the scheduler itself, a container by hand and what a user made belong to no scheduler."""
    assert job(cgroup) is None


def test_a_job_within_a_pod_is_the_job() -> None:
    """Where slurmd runs in Kubernetes, people know the job; its pod is only where the daemon lives."""
    found = job(f"0::/kubepods/pod{UID}/c/system.slice/slurmstepd.scope/job_9/step_0\n")
    assert found is not None
    assert (found.scheduler, found.id) == ("slurm", "9")


def _process(cgroup: str = "", **environment: str) -> Process:
    return Process(4711, 99213, cgroup, environment, uid=ADA, owner="ada")


def test_the_schedulers_cgroup_comes_before_what_a_process_says() -> None:
    """Anyone can set a variable; a cgroup is made by the scheduler."""
    found = attribute(_process(SLURM, GPULEDGER_RUN_ID="mine", SLURM_JOB_ID="5"), PLACE)
    assert found == Attribution("slurm/alpha/81234", "cgroup")


def test_a_declared_run_comes_before_the_process_alone() -> None:
    """`gpuledger run` names its command; the name holds where no scheduler knows better."""
    found = attribute(_process(GPULEDGER_RUN_ID="declared/n14/1001/0b7e"), PLACE)
    assert found == Attribution("declared/n14/1001/0b7e", "declared", owner="ada")


def test_an_unknown_process_is_its_own_run_and_has_an_owner() -> None:
    """A GPU with processes is held: by whom is known even where no scheduler is."""
    assert attribute(_process(), PLACE) == Attribution("process/n14/4711.99213", "process", owner="ada")


def test_a_job_id_in_the_environment_counts_below_a_step_of_that_job() -> None:
    """Without Slurm's cgroups it is all there is."""
    process = replace(_process(SLURM_JOB_ID="77", SLURM_RESTART_COUNT="2"), slurm_job="77")
    assert attribute(process, PLACE) == Attribution("slurm/alpha/77", "declared", 2, "ada")


@pytest.mark.parametrize(
    ("environment", "own"),
    [
        ({"SLURM_JOB_ID": "777"}, "slurm-777"),
        ({"SLURM_JOB_ID": "777", "SLURM_ARRAY_JOB_ID": "81234", "SLURM_ARRAY_TASK_ID": "7"}, "slurm-81234_7"),
        ({"GPULEDGER_RUN_ID": "slurm/alpha/1"}, "slurm-alpha-1"),
        ({"GPULEDGER_RUN_ID": "kubernetes/prod/0b7e"}, "kubernetes-prod-0b7e"),
        ({"GPULEDGER_RUN_ID": "process/n14/4711.99213"}, "process-n14-4711.99213"),
        ({"GPULEDGER_RUN_ID": "ray/alpha/c1.02000000", "SLURM_JOB_ID": "777"}, "ray-alpha-c1.02000000"),
        ({"GPULEDGER_RUN_ID": "ray/alpha/1002/c1.02000000"}, "ray-alpha-1002-c1.02000000"),
        ({"GPULEDGER_RUN_ID": "declared/n14/1002/train"}, "declared-n14-1002-train"),
        ({"GPULEDGER_RUN_ID": "declared/n14/01001/train"}, "declared-n14-01001-train"),
    ],
)
@pytest.mark.parametrize("started_by", [None, "81234"])
def test_nobody_books_onto_the_run_of_another(environment: dict[str, str], own: str, started_by: str | None) -> None:
    """Anybody can set a variable: GPU-hours, account and progress of somebody's job would be moved by it."""
    found = attribute(replace(_process(**environment), slurm_job=started_by), PLACE)
    assert found == Attribution(f"declared/n14/1001/{own}", "declared", owner="ada")


SAID = [
    {"GPULEDGER_RUN_ID": "declared/n14/train"},
    {"GPULEDGER_RUN_ID": "declared/alpha/train"},
    {"GPULEDGER_RUN_ID": "declared/n14/1001/train"},
    {"GPULEDGER_RUN_ID": "declared/alpha/1001/torchrun-llama"},
    {"GPULEDGER_RUN_ID": "train"},
    {"GPULEDGER_RUN_ID": "1001/train"},
    {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "llama"},
    {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"},
    {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29500"},
    {"OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "prterun-n14-511@1"},
    {"RAY_JOB_ID": "02000000"},
    {"SLURM_JOB_ID": "777"},
]


@pytest.mark.parametrize("said", SAID)
def test_two_users_who_say_the_same_are_in_two_runs(said: dict[str, str]) -> None:
    """Whatever a process can say of itself another user's can say too, on this host and on others."""
    ray = RayWorker("Trainer", "f6d86b18") if "RAY_JOB_ID" in said else None
    ada = replace(_process(**said), parent=(4700, 99000), ray=ray)
    bob = replace(ada, uid=ADA + 1, owner="bob")
    of_ada = {attribute(ada, place).run_id for place in (PLACE, HostIdentity("n15", "alpha"))}
    of_bob = {attribute(bob, place).run_id for place in (PLACE, HostIdentity("n15", "alpha"))}
    assert not of_ada & of_bob
    known = [attribute(replace(bob, environment={"GPULEDGER_RUN_ID": run}), PLACE).run_id for run in of_ada]
    assert not of_ada.intersection(known), "and whoever knows how the other's is called cannot say it"


def test_a_declared_run_is_one_over_hosts_where_one_user_says_the_same_place() -> None:
    """A training over several hosts without a scheduler: its cluster's name is what they have in common."""
    process = _process(GPULEDGER_RUN_ID="declared/alpha/llama")
    places = (PLACE, HostIdentity("n15", "alpha"))
    assert {attribute(process, place).run_id for place in places} == {"declared/alpha/1001/llama"}


def test_what_a_process_whose_user_is_not_seen_says_counts_for_nothing() -> None:
    """Nobody's word proves nothing."""
    process = replace(_process(GPULEDGER_RUN_ID="declared/alpha/llama"), uid=None)
    assert attribute(process, PLACE).run_id == "process/n14/4711.99213"


def test_the_step_that_has_started_a_process_is_roots_and_says_its_job(tmp_path: Path) -> None:
    """A user can give any process of theirs any title, and not another's uid."""
    titles = {10: "slurmstepd: [81234.batch]\0", 11: "/bin/bash\0job.sh\0", 12: "slurmstepd: [777.0]\0"}
    for pid, title in titles.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text(title)
    assert slurm_job_above(tmp_path, [(11, 2), (10, 1), (12, 1)], os.getuid()) == "81234"
    assert slurm_job_above(tmp_path, [(11, 2)], os.getuid()) is None
    assert slurm_job_above(tmp_path, [(11, 2), (10, 1)], os.getuid() + 1) is None
    assert slurm_job_above(tmp_path, [(99, 1)], os.getuid()) is None


@pytest.mark.parametrize(
    ("environment", "run_id", "attempt"),
    [
        ({"SLURM_ARRAY_JOB_ID": "81200", "SLURM_ARRAY_TASK_ID": "7"}, "slurm/alpha/81200_7", 0),
        ({"SLURM_HET_JOB_ID": "81234", "SLURM_HET_JOB_OFFSET": "1"}, "slurm/alpha/81234+1", 0),
        ({"SLURM_RESTART_COUNT": "3"}, "slurm/alpha/81234", 3),
        ({"SLURM_RESTART_COUNT": "9" * 200}, "slurm/alpha/81234", None),
        ({"SLURM_ARRAY_JOB_ID": "x", "SLURM_ARRAY_TASK_ID": "7"}, "slurm/alpha/81234", 0),
    ],
)
def test_the_environment_completes_the_schedulers_word(environment: dict[str, str], run_id: str, attempt: int) -> None:
    """A cgroup holds the raw number; accounting knows array tasks and parts of heterogeneous jobs by their own."""
    found = attribute(_process(SLURM, SLURM_JOB_ID="81234", **environment), PLACE)
    assert (found.run_id, found.attempt) == (run_id, attempt)


def test_the_environment_of_another_job_completes_nothing() -> None:
    """A shell that was opened in one job and used in another carries the first one's variables."""
    found = attribute(_process(SLURM, SLURM_JOB_ID="5", SLURM_ARRAY_JOB_ID="4", SLURM_ARRAY_TASK_ID="1"), PLACE)
    assert (found.run_id, found.attempt) == ("slurm/alpha/81234", None)


def test_a_pod_is_its_own_run_until_its_owner_is_known() -> None:
    """The host knows no more than the uid; the collector joins it with the pod's owner."""
    found = attribute(_process(f"0::/kubepods/pod{UID}/c\n"), PLACE)
    assert found == Attribution(f"kubernetes/alpha/{UID}", "cgroup")


def test_only_allow_listed_variables_are_kept() -> None:
    """Secrets live in environments; what is not kept cannot leave the host."""
    kept = allowed("AWS_SECRET_ACCESS_KEY=hush\0SLURM_JOB_ID=7\0HOME=/home/ada\0GPULEDGER_RUN_ID=\0")
    assert kept == {"SLURM_JOB_ID": "7"}


@given(st.text(max_size=400))
def test_any_environment_is_taken_in_peace(environ: str) -> None:
    """Users write their environments; the agent reads them."""
    assert allowed(environ).keys() <= KEYS


@given(st.text(max_size=400))
def test_any_name_makes_a_plain_run_id(name: str) -> None:
    """A run id ends in URLs, file names and terminals."""
    found = declared_run_id({"GPULEDGER_RUN_ID": name}, "n14", ADA)
    assert (found is None) == (name == "")
    assert found is None or (found.isascii() and found.isprintable() and " " not in found and found.count("/") <= 3)


@given(st.text(max_size=200))
def test_any_cgroup_text_is_taken_in_peace(cgroup: str) -> None:
    """Container runtimes write what they like."""
    controller_paths(cgroup)
    job(cgroup)


@pytest.mark.parametrize(("text", "cores"), [("0-3,8", 5), ("0", 1), ("0-127\n", 128), ("", None), ("max", None)])
def test_a_list_of_cores_is_counted(text: str, cores: int | None) -> None:
    """Cpusets are written as ranges."""
    assert list_length(text) == cores


def test_a_user_without_a_name_is_a_number() -> None:
    """The users of a container need not exist on its host."""
    assert user_name(0) == "root"
    assert user_name(4_000_000_000) == "4000000000"


def test_a_process_that_ended_is_none(host: Any) -> None:
    """Between the listing and the reading it may be gone."""
    assert read_process(host.proc, 999_999, 1) is None
    assert read_process(host.proc, 4711, 100400) == Process(
        4711, 100400, "0::/system.slice/slurmstepd.scope/job_81234/step_0/user/task_0\n", None, 0, "root", 32
    )
