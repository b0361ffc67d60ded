"""Pods by name and pods by uid are joined only where it follows."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.attribution.kubelet import PodEvidence, living, logged, pods_by_uid
from agent.attribution.run import job

UID = "0a1b2c3d-1111-2222-3333-0123456789ab"
UNDERSCORED = UID.replace("-", "_")
A, B = ("ml", "a-0"), ("ml", "b-0")


def seen(*gpus: str, hostname: str | None = None) -> PodEvidence:
    """Return what a uid's processes show."""
    return PodEvidence(frozenset(gpus), frozenset({hostname} if hostname else ()))


@pytest.mark.parametrize(
    ("pods", "uids", "expected"),
    [
        ({A: {"g0"}}, {"u": seen("g0")}, {A: "u"}),
        ({A: {"g0", "g1"}}, {"u": seen("g1")}, {A: "u"}),
        ({A: {"g0"}, B: {"g1"}}, {"u": seen("g1"), "v": seen("g0")}, {A: "v", B: "u"}),
        ({A: {"g0"}}, {}, {}),
        # Two on one GPU cannot be told apart, but for their host names.
        ({A: {"g0"}, B: {"g0"}}, {"u": seen("g0"), "v": seen("g0")}, {}),
        ({A: {"g0"}, B: {"g0"}}, {"u": seen("g0")}, {}),
        ({A: {"g0"}, B: {"g0"}}, {"u": seen("g0", hostname="b-0"), "v": seen("g0")}, {A: "v", B: "u"}),
        # The server that all pods of a host share (MPS) holds GPUs that no one of them has.
        ({A: {"g0"}, B: {"g1"}}, {"mps": seen("g0", "g1")}, {}),
        ({A: {"g0"}}, {"mps": seen("g0"), "u": seen("g0")}, {}),
        # A host name that is another's is evidence against.
        ({A: {"g0"}}, {"u": seen("g0", hostname="dcgm-exporter-x7")}, {}),
    ],
)
def test_a_uid_is_joined_where_there_is_no_other(
    pods: dict[tuple[str, str], set[str]], uids: dict[str, PodEvidence], expected: dict[tuple[str, str], str]
) -> None:
    """A wrong owner is worse than none: the pod keeps its name until it is known."""
    assert pods_by_uid({pod: frozenset(gpus) for pod, gpus in pods.items()}, uids, {}) == expected


def test_what_was_joined_stays_joined() -> None:
    """The process that told the uid may have ended, and the pod holds its GPU still."""
    assert pods_by_uid({A: frozenset({"g0"})}, {"v": seen("g0")}, {A: "u"}) == {A: "u"}


@given(
    st.dictionaries(
        st.tuples(st.just("ml"), st.sampled_from("abcd")), st.frozensets(st.sampled_from("0123"), min_size=1)
    ),
    st.dictionaries(st.sampled_from("uvwx"), st.frozensets(st.sampled_from("0123"), min_size=1).map(PodEvidence)),
)
def test_no_uid_is_given_to_two_pods(pods: dict[tuple[str, str], frozenset[str]], uids: dict[str, PodEvidence]) -> None:
    """And none to a pod that does not hold what its processes hold."""
    found = pods_by_uid(pods, uids, {})
    assert len(set(found.values())) == len(found)
    assert all(uids[uid].gpus <= pods[pod] for pod, uid in found.items())


def test_log_directories_are_read_by_name(tmp_path: Path) -> None:
    """Namespace and pod have no underscores; static pods have a hash for a uid."""
    for name in (f"ml_train-0_{UID}", "kube-system_etcd-n1_0123456789abcdef0123456789abcdef", "other", "a_b_c"):
        (tmp_path / name).mkdir()
    assert logged(tmp_path) == {
        ("ml", "train-0"): {UID},
        ("kube-system", "etcd-n1"): {"0123456789abcdef0123456789abcdef"},
    }
    assert logged(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "path",
    [
        f"kubepods.slice/kubepods-pod{UNDERSCORED}.slice",
        f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDERSCORED}.slice",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{UNDERSCORED}.slice",
        f"memory/kubepods/burstable/pod{UID}",
        f"memory/kubepods/pod{UID}",
        f"systemd/kubepods.slice/kubepods-pod{UNDERSCORED}.slice",
    ],
)
def test_living_pods_are_those_with_a_cgroup(tmp_path: Path, path: str) -> None:
    """Kubelets drive systemd or cgroupfs, under version 1 or 2, and some below a slice of their own."""
    (tmp_path / "fs/cgroup" / path / "cri-containerd-ab.scope").mkdir(parents=True)
    assert living(tmp_path) == {UID}


def test_no_kubelets_cgroup_is_not_no_pods(tmp_path: Path) -> None:
    """In a container with a cgroup namespace of its own nothing is seen, and nothing follows from that."""
    (tmp_path / "fs/cgroup/system.slice").mkdir(parents=True)
    assert living(tmp_path) is None
    (tmp_path / "fs/cgroup/kubepods.slice").mkdir()
    assert living(tmp_path) == set()


@pytest.mark.parametrize(
    "path",
    [f"/../../pod{UID}/abcdef", f"/../kubepods-besteffort-pod{UNDERSCORED}.slice/cri-containerd-ab.scope"],
)
def test_a_pod_is_known_from_within_another(path: str) -> None:
    """An agent in a pod sees its neighbours' cgroups from its own: dots first, and kubepods may be left out."""
    found = job(f"0::{path}\n")
    assert found is not None
    assert (found.scheduler, found.id) == ("kubernetes", UID)
