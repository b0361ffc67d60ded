"""Ray workers by name, from processes as Ray 2.60 shows them."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.attribution.evidence import Process, RayWorker, cluster_name, ray_labels, ray_member, ray_run_id
from agent.attribution.providers import Meant
from agent.attribution.run import HostIdentity, attribute
from agent.sources.claims import Claim, Claims, Submissions
from agent.sources.process_table import read_table

PROC = Path(__file__).parent / "data/ray/proc"
PLACE = HostIdentity("n14", "alpha")
REPLICA, ACTOR, TASK, ENGINE = 26723, 26765, 31960, 31990


def claims_of(*pids: int) -> dict[int, Claim]:
    """Return whose these captured processes are."""
    table = read_table(PROC)
    claims = Claims(PROC, lambda process: attribute(process, PLACE))
    return claims.update(table.processes, frozenset(pids))


@pytest.mark.parametrize(
    ("pid", "run_id", "member"),
    [
        (REPLICA, "ray/alpha/0/f6d86b18.02000000", "chat/LLM/26723"),
        (ACTOR, "ray/alpha/0/f6d86b18.02000000", "Trainer/26765"),
        (TASK, "ray/alpha/0/f6d86b18", "fn/31960"),
        (ENGINE, "ray/alpha/0/f6d86b18.02000000", "chat/LLM/31990"),
    ],
)
def test_a_worker_is_known_by_job_and_name(pid: int, run_id: str, member: str) -> None:
    """Job ids count from 1 in every Ray cluster, so the cluster's id is part of the name; a worker that waited for any
    job never learns which one it got; an engine below a replica is the replica's.
    """
    found = claims_of(pid)[pid].attribution
    assert (found.run_id, found.member, found.scheduler) == (run_id, member, "declared")


def test_names_are_labels_too() -> None:
    """teams.toml maps by labels; one replica more must not make another label."""
    assert claims_of(REPLICA)[REPLICA].attribution.labels == {
        "ray_job": "02000000",
        "ray_cluster": "f6d86b18",
        "ray_application": "chat",
        "ray_deployment": "LLM",
    }


@pytest.mark.parametrize(
    ("cgroup", "run_id"),
    [
        ("0::/system.slice/slurmstepd.scope/job_81234/step_0\n", "slurm/alpha/81234"),
        (
            "0::/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-0123456789ab/c\n",
            "kubernetes/alpha/0a1b2c3d-1111-2222-3333-0123456789ab",
        ),
    ],
)
def test_ray_within_a_scheduler_is_what_runs_there(cgroup: str, run_id: str) -> None:
    """The job or the pod's owner is who asked for the GPU and is charged; Ray's names say what it was used for."""
    worker = RayWorker("ServeReplica:chat:LLM", "f6d86b18")
    found = attribute(Process(7, 1, cgroup, {"RAY_JOB_ID": "02000000"}, ray=worker), PLACE)
    assert (found.run_id, found.member, found.labels["ray_job"]) == (run_id, "chat/LLM/7", "02000000")


@pytest.mark.parametrize(
    ("title", "member"),
    [
        ("ServeReplica:chat:LLM.handle_request_with_rejection", "chat/LLM/7"),
        ("ServeReplica:LLM", "LLM/7"),
        ("RayTrainWorker", "RayTrainWorker/7"),
        ("RayTrainWorker.execute", "RayTrainWorker/7"),
        ("IDLE", None),
        ("IDLE_SpillWorker", None),
        ("", None),
    ],
)
def test_titles_name_actors_without_their_methods(title: str, member: str | None) -> None:
    """The title changes with every call, the actor does not; a worker that waits is nobody."""
    assert ray_member(RayWorker(title, None), 7) == member


def test_an_older_raylet_is_known_by_its_session() -> None:
    """Raylets had no cluster id before Ray 2.5; the session's name is the same on all hosts too."""
    assert (
        cluster_name("raylet --session-name=session_2023-01-02_03-04-05_678 --head")
        == "session_2023-01-02_03-04-05_678"
    )
    assert cluster_name("raylet") is None


def test_a_worker_whose_raylet_is_hidden_is_no_ray_run() -> None:
    """Without the cluster's id a job id names nothing."""
    assert ray_run_id(RayWorker("fn", None), "01000000", "alpha", 0) is None


def with_driver(at: Path) -> Path:
    """Return the captured processes with the files that the driver had open: links, which no archive would keep."""
    shutil.copytree(PROC, at)
    (at / "26669/fd").mkdir()
    log = (
        "/tmp/ray/session_x/logs/python-core-driver-02000000ffffffffffffffffffffffffffffffffffffffffffffffff_26669.log"
    )
    for number, target in enumerate(("/dev/null", "socket:[323946]", log)):
        (at / "26669/fd" / str(number)).symlink_to(target)
    return at


def test_a_submission_names_the_job_where_its_driver_runs(tmp_path: Path) -> None:
    """Workers know their job by number, people by the name of its submission; the secrets beside it are not kept."""
    proc = with_driver(tmp_path / "proc")
    submissions = Submissions(proc, "alpha")
    expected = {"ray/alpha/0/f6d86b18.02000000": Meant("ray/alpha/0/f6d86b18.raysubmit_4LamXRuQpYdSMg7J")}
    assert submissions.names(read_table(proc).processes) == expected
    (proc / "26669/environ").unlink()
    assert submissions.names(read_table(proc).processes) == expected, "a driver is looked at once in its life"
    shutil.rmtree(proc / "26669")
    assert submissions.names(read_table(proc).processes) == {}


def test_a_driver_that_may_not_be_read_is_passed_over() -> None:
    """Another user's open files and environment are closed to an unprivileged agent."""
    assert Submissions(PROC, "alpha").names(read_table(PROC).processes) == {}


@given(st.text(max_size=200))
def test_any_title_is_taken_in_peace(title: str) -> None:
    """Users name their actors, and any process may call itself so."""
    worker = RayWorker(title, None)
    assert all(value.isascii() for value in ray_labels(worker, None).values())
    member = ray_member(worker, 7)
    assert member is None or (member.isascii() and member.isprintable())
    cluster_name(title)
