"""Pods and their GPUs, from a real gRPC server that answers as a kubelet does, and as one does not."""

import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.attribution.devices import Device, Devices
from agent.attribution.kubelet import Kubelet, allocatable, containers, fields, living, replicas, unit
from agent.attribution.providers import GOOD_FOR_SECONDS, Aliases, HolderProviders, Meant, ProviderReport
from agent.errors import SourceError
from agent.files import StateFile
from agent.sources.register import Register, authorities
from tests.agent.sources.kubelet_stand_in import StandIn, allocatable_response, field, list_response
from tests.waiting import PATIENCE_SECONDS, until

UID = "0a1b2c3d-1111-2222-3333-0123456789ab"
OTHER = "0a1b2c3d-1111-2222-3333-0123456789cd"
GPU, OTHER_GPU = "GPU-5f2d7a10-6d4e-4c1b-9a57-1f0d5e3c0001", "GPU-5f2d7a10-6d4e-4c1b-9a57-1f0d5e3c0002"
MIG = "MIG-9c1b2a3d-0000-5555-8888-1f0d5e3c0001"
DEVICES = Devices([Device(GPU, 0), Device(OTHER_GPU, 1), Device(MIG, 1, OTHER_GPU, 7)], minors={GPU: 1, OTHER_GPU: 0})
TRAIN = {"ml/train-0": {"main": {"nvidia.com/gpu": [GPU]}}}


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[StandIn]:
    """Return a running kubelet with one pod on one GPU."""
    stand_in = StandIn(tmp_path / "kubelet.sock")
    stand_in.listed = list_response(TRAIN)
    stand_in.start()
    yield stand_in
    stand_in.stop()


@pytest.fixture
def holder(kubelet: StandIn, tmp_path: Path) -> Iterator[Kubelet]:
    """Return what asks it. The host has no log directories and no kubelet's cgroups yet."""
    made = Kubelet(kubelet.socket, "alpha", lambda: DEVICES, sys=tmp_path / "sys", logs=tmp_path / "logs")
    yield made
    made.close()


def held(told: ProviderReport | None) -> list[tuple[str, str, str | None, float | None]]:
    """Return run, GPU, member and fraction of what was told."""
    assert told is not None
    return [(one.attribution.run_id, one.gpu_uuid, one.attribution.member, one.fraction) for one in told.held]


def cgroup_of(sys: Path, uid: str) -> None:
    """Make the cgroup of a pod, as a kubelet with the systemd driver does."""
    name = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
    (sys / "fs/cgroup/kubepods.slice/kubepods-burstable.slice" / name).mkdir(parents=True)


def test_a_pod_holds_its_gpu_without_any_process(holder: Kubelet) -> None:
    """A notebook that nobody uses holds its GPU all the same: the most expensive case, and the one NVML cannot see."""
    assert held(holder.read()) == [("kubernetes/alpha/ml.train-0", GPU, "ml/train-0/main", None)]


def test_containers_without_gpus_hold_none(kubelet: StandIn, holder: Kubelet) -> None:
    """A kubelet lists every pod of its host, and network cards and CPUs with the GPUs."""
    kubelet.listed = list_response({"net/a": {"c": {"rdma/hca": ["0000:3b:00.0"]}}, "ml/b": {"c": {}}, **TRAIN})
    assert [run for run, *_ in held(holder.read())] == ["kubernetes/alpha/ml.train-0"]


@pytest.mark.parametrize(
    ("device_id", "uuid"),
    [
        (GPU, GPU),
        (f"{GPU}::3", GPU),
        (MIG, MIG),
        (f"{MIG}::0", MIG),
        (f"{GPU}-3", GPU),
        (f"{GPU}-_-12", GPU),
        (f"{GPU}/0", GPU),
        (f"{MIG}-0", MIG),
        (f"GPU-0{GPU[5:]}-7", f"GPU-0{GPU[5:]}"),
        ("nvidia1", GPU),
        ("nvidia1/vgpu4", GPU),
        ("nvidia0/gi7", MIG),
        ("nvidia0/gi7/vgpu0", MIG),
        (f"MIG-{OTHER_GPU}/7/0", MIG),
        ("nvidia0/gi6", None),
        ("nvidia9", None),
        ("0000:3b:00.0", None),
        ("GPU-", None),
        ("", None),
        ("GPU-00000000-not-listed-now", "GPU-00000000-not-listed-now"),
    ],
)
def test_device_ids_of_every_plugin_name_a_gpu(device_id: str, uuid: str | None) -> None:
    """NVIDIA's plugin and GKE's, whole, time-sliced and MIG; GKE counts device files, which need not be in order."""
    assert unit(device_id, DEVICES) == uuid


def test_parts_of_a_time_sliced_gpu_are_fractions(kubelet: StandIn, holder: Kubelet) -> None:
    """The ids that were handed out do not tell how many there are; the allocatable ones do."""
    kubelet.allocatable = allocatable_response("nvidia.com/gpu.shared", [f"{GPU}::{n}" for n in range(4)] + [OTHER_GPU])
    kubelet.listed = list_response(
        {
            "ml/a-0": {"main": {"nvidia.com/gpu.shared": [f"{GPU}::2"]}},
            "ml/b-0": {"main": {"nvidia.com/gpu.shared": [f"{GPU}::0", f"{GPU}::3"]}},
            "ml/c-0": {"main": {"nvidia.com/gpu.shared": [OTHER_GPU]}},
        }
    )
    assert [(member, fraction) for _, _, member, fraction in held(holder.read())] == [
        ("ml/a-0/main", 0.25),
        ("ml/b-0/main", 0.5),
        ("ml/c-0/main", None),
    ]


@pytest.mark.parametrize("between", ["-", "::", "-_-", "/", "_"])
def test_parts_by_any_plugin_are_parts_of_a_listed_gpu(kubelet: StandIn, holder: Kubelet, between: str) -> None:
    """HAMi's ids are the UUID and a number: two pods held two GPUs that do not exist (Project-HAMi/HAMi#112)."""
    ids = [f"{gpu}{between}{part}" for gpu in (GPU, OTHER_GPU) for part in range(10)]
    kubelet.allocatable = allocatable_response("nvidia.com/gpu", ids)
    kubelet.listed = list_response(
        {f"ml/{pod}": {"m": {"nvidia.com/gpu": [ids[n]]}} for pod, n in (("a", 3), ("b", 7))}
    )
    assert [(gpu, member, fraction) for _, gpu, member, fraction in held(holder.read())] == [
        (GPU, "ml/a/m", 0.1),
        (GPU, "ml/b/m", 0.1),
    ]


@given(st.data())
def test_an_id_is_a_part_of_the_gpu_that_it_begins_with(data: st.DataObject) -> None:
    """Whatever plugins put behind a UUID; and never a GPU that nobody has."""
    digits = st.text("0123456789abcdef", min_size=32, max_size=32)
    uuids = [
        f"{data.draw(st.sampled_from(['GPU', 'MIG']))}-{d[:8]}-{d[8:12]}-{d[12:16]}-{d[16:20]}-{d[20:]}"
        for d in data.draw(st.lists(digits, min_size=1, max_size=4, unique=True))
    ]
    listed = Devices([Device(uuid, place) for place, uuid in enumerate(uuids[: data.draw(st.integers(0, 4))])])
    uuid = data.draw(st.sampled_from(uuids))
    behind = data.draw(st.from_regex(r"(?:[-:_/.][ -~]{0,12})?", fullmatch=True))
    assert unit(uuid + behind, listed) == uuid


def test_a_kubelet_that_does_not_say_what_is_allocatable_leaves_parts_unknown(
    kubelet: StandIn, holder: Kubelet
) -> None:
    """Kubelets before 1.23 have no such question; who holds what is known all the same."""
    kubelet.listed = list_response({"ml/a-0": {"main": {"nvidia.com/gpu": [f"{GPU}::2"]}}})
    assert held(holder.read()) == [("kubernetes/alpha/ml.a-0", GPU, "ml/a-0/main", None)]


def test_allocatable_devices_are_asked_for_rarely(kubelet: StandIn, holder: Kubelet) -> None:
    """They change when the device plugin is set up anew, and cost the kubelet as much as the list."""
    for _ in range(3):
        holder.read()
    assert kubelet.asked == ["List", "GetAllocatableResources", "List", "List"]


def test_the_log_directories_tell_the_uid(tmp_path: Path, holder: Kubelet) -> None:
    """The uid is the pod's lasting name; the name alone comes back with the next pod of a StatefulSet."""
    (tmp_path / "logs" / f"ml_train-0_{UID}").mkdir(parents=True)
    told = holder.read()
    assert told is not None
    assert told.names == {"kubernetes/alpha/ml.train-0": Meant(f"kubernetes/alpha/{UID}", "ml/train-0")}


def test_a_pod_that_has_ended_holds_nothing(tmp_path: Path, holder: Kubelet) -> None:
    """Some kubelets list pods that have succeeded until they are deleted (kubernetes#119423); their cgroup is gone."""
    (tmp_path / "logs" / f"ml_train-0_{UID}").mkdir(parents=True)
    cgroup_of(tmp_path / "sys", OTHER)
    assert held(holder.read()) == []
    cgroup_of(tmp_path / "sys", UID)
    assert len(held(holder.read())) == 1


def test_of_two_pods_of_one_name_the_living_one_counts(tmp_path: Path, holder: Kubelet) -> None:
    """A pod of a StatefulSet that was made anew has the logs of the old one beside its own for a while."""
    for uid in (UID, OTHER):
        (tmp_path / "logs" / f"ml_train-0_{uid}").mkdir(parents=True)
    cgroup_of(tmp_path / "sys", OTHER)
    told = holder.read()
    assert told is not None
    assert [meant.run_id for meant in told.names.values()] == [f"kubernetes/alpha/{OTHER}"]


def test_a_host_without_a_kubelet_says_nothing(tmp_path: Path) -> None:
    """Most GPU hosts of an HPC site have none: that is no failure, and has no age."""
    holders = HolderProviders(
        [Kubelet(tmp_path / "none.sock", "alpha", lambda: DEVICES)], patience_seconds=PATIENCE_SECONDS
    )
    assert holders.told() == ProviderReport()
    assert (holders.ages(), holders.conditions()) == ({}, [])
    holders.close()


def test_a_missing_grpcio_is_one_sentence(holder: Kubelet, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra; an operator with a kubelet must be told what to install, and others must not."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(SourceError, match=r"install requirements-kubernetes\.lock"):
        holder.read()


def test_resource_claims_are_counted(kubelet: StandIn, holder: Kubelet) -> None:
    """Devices of Dynamic Resource Allocation have names that only the cluster can resolve: not seen, and said so.

    Those of other drivers, such as network cards, are no GPUs.
    """
    claim = field(2, "gpu") + field(3, "ml") + field(4, field(2, "gpu.nvidia.com") + field(4, "gpu-0"))
    claim += field(4, field(2, "dra.net") + field(4, "nic-0"))
    kubelet.listed = field(1, field(1, "a-0") + field(2, "ml") + field(3, field(1, "main") + field(5, claim)))
    told = holder.read()
    assert held(told) == []
    assert holder.claims == 1
    assert told is not None
    assert [words.split(":")[0] for words, count in told.unread.items() if count] == ["devices held by resource claims"]


def test_ids_of_gpus_that_name_none_are_counted(kubelet: StandIn, holder: Kubelet) -> None:
    """The GPUs are held, and which they are cannot be said; other devices, and cards of virtual machines, are none."""
    ids = {
        "nvidia.com/gpu": [GPU, "nvidia7", "card-3"],
        "nvidia.com/mig-1g.10gb": ["MIG-GPU-0/9/0"],
        "nvidia.com/A100.shared": ["nvidia9/vgpu0"],
        "nvidia.com/GA102GL_A10": ["0000:65:00.0"],
        "rdma/hca": ["0000:3b:00.0"],
    }
    kubelet.listed = list_response({"ml/a": {"c": ids}})
    providers = HolderProviders([holder], Aliases(), patience_seconds=PATIENCE_SECONDS)
    told = providers.told()
    assert [one.gpu_uuid for one in told.held] == [GPU]
    assert [line.partition(":")[0] for line in providers.coverage()] == ["kubelet"]
    assert providers.coverage()[0].startswith("kubelet: 4 device ids of pods name no GPU of this host")
    providers.close()


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.seconds


@pytest.fixture
def asked(kubelet: StandIn, holder: Kubelet) -> Iterator[tuple[HolderProviders, Clock]]:
    """Return the kubelet as the agent asks it, heard once."""
    clock = Clock()
    holders = HolderProviders([holder], Aliases(), clock, patience_seconds=PATIENCE_SECONDS)
    assert len(holders.told().held) == 1
    clock.seconds += 15
    yield holders, clock
    kubelet.go_on.set()
    holders.close()


def _restarting(kubelet: StandIn) -> None:
    kubelet.stop()


def _garbage(kubelet: StandIn) -> None:
    kubelet.listed = b"\xff" * 64


def _silent(kubelet: StandIn) -> None:
    kubelet.socket.unlink()


@pytest.mark.parametrize("wrong", [_restarting, _garbage, _silent])
def test_the_last_good_answer_stands_while_the_kubelet_fails(
    asked: tuple[HolderProviders, Clock], kubelet: StandIn, wrong: Callable[[StandIn], None]
) -> None:
    """A pod does not lose its GPU because the kubelet restarts: labels that vanish are the exporters' old complaint."""
    holders, clock = asked
    wrong(kubelet)
    assert len(holders.told().held) == 1
    assert [(one.age_seconds, one.failures) for one in holders.conditions()] == [(15.0, 1)]
    clock.seconds += GOOD_FOR_SECONDS
    assert holders.told().held == ()
    assert holders.ages() == {}


def test_a_kubelet_that_is_back_is_heard_again(asked: tuple[HolderProviders, Clock], kubelet: StandIn) -> None:
    """An upgrade of the host takes minutes; the agent must not need a restart of its own."""
    holders, clock = asked
    kubelet.stop()
    holders.told()
    kubelet.listed = list_response({**TRAIN, "ml/b-0": {"main": {"nvidia.com/gpu": [OTHER_GPU]}}})
    kubelet.start()
    clock.seconds += 15
    assert len(holders.told().held) == 2
    assert holders.ages() == {"kubelet": 0.0}


def test_a_kubelet_that_hangs_delays_nobody(kubelet: StandIn, holder: Kubelet) -> None:
    """It is asked on a thread of its own; what it says too late counts at the next reading."""
    clock = Clock()
    holders = HolderProviders([holder], Aliases(), clock, patience_seconds=0.0)
    kubelet.hang.set()
    assert holders.told().held == ()
    assert holders.pending
    kubelet.hang.clear()
    kubelet.go_on.set()

    def is_heard() -> bool:
        clock.seconds += 15
        return bool(holders.told().held)

    until(is_heard, "what the kubelet says is heard")
    assert [*holders.ages()] == ["kubelet"]
    holders.close()


def test_a_fast_scrape_does_not_ask_more_often(asked: tuple[HolderProviders, Clock], kubelet: StandIn) -> None:
    """The kubelet works for its pods; it is asked every 15 s however fast processes are read."""
    holders, clock = asked
    for _ in range(30):
        clock.seconds += 1
        holders.told()
    assert kubelet.asked.count("List") == 4  # when heard first, at once here, and after 15 s and 30 s


def test_a_shared_gpus_parts_are_counted_by_its_id() -> None:
    """A whole GPU has no parts; GKE and NVIDIA write parts differently."""
    ids = [f"{GPU}::0", f"{GPU}::1", OTHER_GPU, "nvidia0/vgpu0"]
    assert replicas(ids, DEVICES) == {GPU: 2, "nvidia0": 1}


@given(
    st.dictionaries(
        st.text("abc-", min_size=1).map(lambda name: f"ml/{name}"),
        st.dictionaries(
            st.text("xyz", min_size=1),
            st.dictionaries(st.just("nvidia.com/gpu"), st.lists(st.text(max_size=200), min_size=1, max_size=9)),
            max_size=3,
        ),
        max_size=5,
    )
)
def test_what_a_kubelet_writes_is_read(pods: Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]) -> None:
    """Any names, any number of devices, lengths of one and of several bytes."""
    found = {(one.namespace, one.pod, one.name): one.device_ids for one in containers(list_response(pods))}
    assert found == {
        (*pod.split("/"), name): tuple(ids)
        for pod, inner in pods.items()
        for name, resources in inner.items()
        for ids in resources.values()
    }


@given(st.binary(max_size=300))
def test_any_answer_is_taken_in_peace(answer: bytes) -> None:
    """What answers on the socket need not be a kubelet."""
    for parse in (containers, allocatable, lambda message: list(fields(message))):
        try:
            parse(answer)
        except ValueError:
            continue


def told_by_next_agent(kubelet: StandIn, state: Path, clock: Clock, readings: int = 1) -> list[tuple[str, int | None]]:
    """Let an agent begin with what the last one left, read, and end; return run and end of what it told."""
    with_file, empty = StateFile(state), state.parent / "empty"
    asked = Kubelet(
        kubelet.socket,
        "alpha",
        lambda: DEVICES,
        sys=empty,
        logs=empty,
        seconds=clock,
        was_there="kubernetes" in authorities(with_file),
    )
    providers = HolderProviders([asked], Aliases(with_file), clock, patience_seconds=PATIENCE_SECONDS)
    register = Register(providers, with_file)
    rows: list[Mapping[str, Any]] = []
    for _ in range(readings):
        rows += register.update((), round(clock.seconds * 1e6))["allocations"]
        clock.seconds += 1200
    providers.close()
    with_file.close()
    return [(str(row["run_id"]), row["ended_at"]) for row in rows]


@pytest.mark.parametrize("wrong", [_restarting, _garbage, _silent])
def test_an_agent_that_begins_while_the_kubelet_fails_gives_nothing_back(
    kubelet: StandIn, tmp_path: Path, wrong: Callable[[StandIn], None]
) -> None:
    """An upgrade of a host restarts both: the pod's allocation ended, and began anew with the kubelet."""
    clock, state, pod = Clock(), tmp_path / "state.json", "kubernetes/alpha/ml.train-0"
    began_at = round(clock.seconds * 1e6)
    assert told_by_next_agent(kubelet, state, clock) == [(pod, None)]
    wrong(kubelet)
    assert told_by_next_agent(kubelet, state, clock, readings=3) == [(pod, None)]
    (first, *rest) = told_by_next_agent(kubelet, state, clock, readings=5)
    assert first == (pod, None)
    assert [run for run, _ in rest] == [pod], "after an hour it is taken for true no longer"
    assert all(ended_at is not None and ended_at >= began_at for _, ended_at in rest)


def test_a_host_that_never_had_a_kubelet_awaits_none(kubelet: StandIn, tmp_path: Path) -> None:
    """Most have none, and a missing socket is then no failure."""
    kubelet.stop()
    kubelet.socket.unlink(missing_ok=True)
    assert told_by_next_agent(kubelet, tmp_path / "state.json", Clock()) == []


def test_cgroups_that_cannot_be_listed_end_no_pod(tmp_path: Path) -> None:
    """A process without a file descriptor to spare saw no pod's cgroup, and so every pod had ended."""
    cgroup_of(tmp_path / "sys", UID)
    assert living(tmp_path / "sys") == {UID}
    limits, free = resource.getrlimit(resource.RLIMIT_NOFILE), os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        found = living(tmp_path / "sys")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert found is None
