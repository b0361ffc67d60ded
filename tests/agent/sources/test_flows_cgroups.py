from pathlib import Path

import pytest

from agent.sources.sockets import CgroupRuns

TASK = "system.slice/slurmstepd.scope/job_7/step_0/user/task_0"
POD = "kubepods.slice/kubepods-pod0a1b2c3d_0000_1111_2222_333344445555.slice/cri-containerd-1.scope"


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    """Return a sysfs with a job, a pod and a service."""
    top = tmp_path / "fs/cgroup"
    for path in (TASK, POD, "system.slice/sshd.service"):
        (top / path).mkdir(parents=True)
    (top / "cgroup.controllers").touch()
    return tmp_path


class Asked:
    """Names every cgroup's run alike, and remembers what was asked."""

    def __init__(self) -> None:
        self.cgroups: list[str] = []

    def __call__(self, cgroup: str) -> str:
        """Return the one run."""
        self.cgroups.append(cgroup)
        return "a-run"


def number(sys: Path, path: str) -> int:
    """Return the number of a cgroup."""
    return (sys / "fs/cgroup" / path).stat().st_ino


def test_a_socket_deep_in_a_jobs_cgroups_is_the_jobs(sys: Path) -> None:
    """A socket bears the cgroup of the very task that made it; the run is named by one far above."""
    asked = Asked()
    found = CgroupRuns(sys, asked)
    task, service = number(sys, TASK), number(sys, "system.slice/sshd.service")
    assert found.runs({task, service, 1}) == {task: "a-run"}
    assert asked.cgroups == ["0::/system.slice/slurmstepd.scope/job_7"]


def test_a_pod_is_found_as_a_job_is(sys: Path) -> None:
    """A pod in the host's network is seen, and it is a run like any other."""
    pod = number(sys, POD)
    assert CgroupRuns(sys, lambda cgroup: cgroup).runs({pod}) == {pod: f"0::/{Path(POD).parent}"}


def test_a_known_cgroup_is_not_searched_for_again(sys: Path) -> None:
    """Its number is never used again, so that what is known stays true, also when the directory has gone."""
    asked = Asked()
    found = CgroupRuns(sys, asked)
    task = number(sys, TASK)
    found.runs({task, 10**9})
    (sys / "fs/cgroup" / TASK).rmdir()
    assert found.runs({task, 10**9}) == {task: "a-run"}
    assert len(asked.cgroups) == 1
    assert found.runs(set()) == {}  # nobody asks any more, and it is forgotten
    assert found.runs({task}) == {}


def test_a_tree_without_end_is_looked_at_in_part(sys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is told, so that unattributed connections have a reason."""
    monkeypatch.setattr("agent.sources.sockets.DIRECTORIES_MAX", 3)
    found = CgroupRuns(sys, lambda cgroup: "a-run")
    found.runs({10**9})
    assert found.cut_short
    assert "more than 3 cgroups" in found.coverage()[0]


def test_a_host_without_cgroups_has_no_runs(tmp_path: Path) -> None:
    """A container that sees no cgroups tells its connections as nobody's."""
    found = CgroupRuns(tmp_path, lambda cgroup: "a-run")
    assert found.runs({5}) == {}
    assert "cgroup v1" in found.coverage()[0]
