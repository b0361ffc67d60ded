"""Edges of what is held: told once, told again when more is known, carried over a restart of the agent."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.attribution.devices import Holding
from agent.attribution.providers import GpuHold, HolderProviders, Meant, ProviderReport
from agent.attribution.run import Attribution, Authority, HostIdentity
from agent.errors import SourceError
from agent.files import StateFile
from agent.sources.processes import ProcessSource
from agent.sources.register import HOLDINGS_SECTION, Holdings, Register
from tests.agent.sources.conftest import told
from tests.waiting import PATIENCE_SECONDS

UID = "0a1b2c3d-1111-2222-3333-0123456789ab"
POD = f"0::/kubepods/burstable/pod{UID}/c\n"


def held(run: str = "slurm/a/1", gpu: str = "g0", **facts: Any) -> GpuHold:
    """Return a run that holds a GPU."""
    return GpuHold(gpu, Attribution(run, facts.pop("scheduler", "cgroup"), **facts))


def edges(rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return run, GPU, begin and end of rows."""
    return [(row["run_id"], row["gpu_uuid"], row["started_at"], row["ended_at"]) for row in rows]


def test_more_that_becomes_known_is_told_with_the_same_beginning() -> None:
    """The collector takes the last word on an allocation; a new beginning would be a second one."""
    holdings = Holdings()
    holdings.update([held()], 10)
    known = held(member="ml/x/main", scheduler="kubernetes")
    (row,) = holdings.update([known], 20)
    assert (row["started_at"], row["ended_at"], row["member"]) == (10, None, "ml/x/main")
    assert holdings.update([known], 30) == []


def test_a_requeue_is_another_attempt() -> None:
    """The job keeps its number; its first try ended and its second began."""
    holdings = Holdings()
    holdings.update([held()], 10)
    rows = holdings.update([held(attempt=1)], 20)
    assert [(row["attempt"], row["started_at"], row["ended_at"]) for row in rows] == [(None, 10, 20), (1, 20, None)]


def test_a_restart_goes_on_with_what_is_still_held(tmp_path: Path) -> None:
    """An edge that an agent left open stayed open for ever; the next one tells it, or ends it when it was last seen."""
    with_file = StateFile(tmp_path / "state.json")
    before = Holdings(with_file)
    before.update([held(), held("slurm/a/2", "g1", rank=3, labels={"k": "v"})], 10)
    before.update([held(), held("slurm/a/2", "g1", rank=3, labels={"k": "v"})], 50)
    with_file.close()

    rows = Holdings(StateFile(tmp_path / "state.json")).update([held("slurm/a/2", "g1"), held("slurm/a/3", "g0")], 900)
    assert edges(rows) == [
        ("slurm/a/1", "g0", 10, 50),
        ("slurm/a/2", "g1", 10, None),
        ("slurm/a/3", "g0", 900, None),
    ]


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"seen_at": "x", "open": []},
        {"seen_at": 5, "open": {}},
        {"seen_at": 5, "open": [3, {}, {"run_id": "a"}, None]},
        {"seen_at": 5, "open": [{"run_id": "a", "gpu_uuid": "g", "scheduler": "boss", "started_at": 1}]},
        {"seen_at": None, "open": None},
    ],
)
def test_what_was_not_written_so_is_passed_over(tmp_path: Path, kept: object) -> None:
    """The file lies on a disk of a machine that loses power."""
    (tmp_path / "state.json").write_text(json.dumps({HOLDINGS_SECTION: kept}))
    assert edges(Holdings(StateFile(tmp_path / "state.json")).update([held()], 10)) == [("slurm/a/1", "g0", 10, None)]


STEPS = st.lists(st.frozensets(st.tuples(st.sampled_from("rs"), st.sampled_from("gh"))), max_size=8)


@given(STEPS, st.sets(st.integers(0, 8)))
def test_edges_add_up_to_what_was_held(steps: list[frozenset[tuple[str, str]]], restarts: set[int]) -> None:
    """Whenever agents end and begin: no edge stays open that is not held, and none overlaps another of its kind."""
    state_file, spans = StateFile(None), dict[tuple[str, str, int], int | None]()
    holdings = Holdings(state_file)
    for number, step in enumerate(steps):
        if number in restarts:
            holdings = Holdings(state_file)
        for row in edges(holdings.update([held(run, gpu) for run, gpu in step], 10 * number)):
            spans[row[0], row[1], row[2]] = row[3]
        still = {key[:2] for key, until in spans.items() if until is None}
        assert still == step
    for (run, gpu, since), until in spans.items():
        times = [10 * number for number, step in enumerate(steps) if (run, gpu) in step]
        assert since in times
        assert until is None or since <= until  # seen at one reading alone, before an agent ended


class Fixed:
    """A holder that always says the same."""

    name = "fixed"
    authority: Authority = "kubernetes"
    period_seconds = 0.0

    def __init__(self, told: ProviderReport | None) -> None:
        self.told = told

    def read(self) -> ProviderReport | None:
        """Say it."""
        return self.told

    def close(self) -> None:
        """There is nothing to give back."""


@pytest.fixture
def hears() -> Iterator[Callable[[ProviderReport], Register]]:
    """Return what makes a register that hears one holder, which always says the same."""
    made: list[HolderProviders] = []

    def register_of(told: ProviderReport) -> Register:
        made.append(HolderProviders([Fixed(told)], patience_seconds=PATIENCE_SECONDS))
        return Register(made[-1], place=HostIdentity("n14", "alpha"))

    yield register_of
    for providers in made:
        providers.close()


def source_of(host: Any, attribution: Any, holders: list[Any], register: Register) -> ProcessSource:
    """Return a source over a captured host."""
    return ProcessSource(
        lambda: told(holders), attribution, host.wall, tuple, host.proc, host.sys, 10.0, host.monotonic, register
    )


KUBELET = GpuHold("GPU-a", Attribution("kubernetes/alpha/ml.train-0", "kubernetes", member="ml/train-0/main"), 0.5)


def test_a_gpu_without_a_process_is_held(
    host: Any, attribution: Any, hears: Callable[[ProviderReport], Register]
) -> None:
    """Allocated and idle with no process is what NVML cannot see, and what costs most."""
    source = source_of(host, attribution, [], hears(ProviderReport((KUBELET,))))
    (row,) = source.read()["allocations"]
    assert (row["run_id"], row["gpu_uuid"], row["gpu_fraction"]) == ("kubernetes/alpha/ml.train-0", "GPU-a", 0.5)
    assert row["scheduler"] == "kubernetes"


def test_a_process_tells_the_uid_of_its_pod(
    host: Any, attribution: Any, holder: Any, hears: Callable[[ProviderReport], Register]
) -> None:
    """The row under the pod's name ends, one under its uid begins, and the collector learns that they are one."""
    holders: list[Any] = []
    source = source_of(host, attribution, holders, hears(ProviderReport((KUBELET,))))
    source.read()
    (host.proc / "4711/cgroup").write_text(POD)
    holders.append(holder("GPU-a", 4711))
    reading = source.read()
    assert [(row["run_id"], row["ended_at"] is None) for row in reading["allocations"]] == [
        ("kubernetes/alpha/ml.train-0", False),
        (f"kubernetes/alpha/{UID}", True),
    ]
    assert reading["allocations"][1]["member"] == "ml/train-0/main"
    assert reading["run_aliases"] == [
        {
            "alias_run_id": "kubernetes/alpha/ml.train-0",
            "run_id": f"kubernetes/alpha/{UID}",
            "member": "ml/train-0",
        }
    ]
    holders.clear()
    later = source.read()
    assert "run_aliases" not in later
    assert later["allocations"] == [], "the pod still holds the GPU, under the name that is known by now"


def test_a_pod_on_the_hosts_network_has_no_name_of_its_own(
    host: Any, attribution: Any, holder: Any, hears: Callable[[ProviderReport], Register]
) -> None:
    """Training over RDMA runs so: the host's name in HOSTNAME is no evidence against the pod."""
    (host.proc / "4711/cgroup").write_text(POD)
    (host.proc / "4711/environ").write_text("HOSTNAME=n14\0")
    source = source_of(host, attribution, [holder("GPU-a", 4711)], hears(ProviderReport((KUBELET,))))
    assert [row["run_id"] for row in source.read()["allocations"]] == [f"kubernetes/alpha/{UID}"]


def test_an_array_task_is_one_run_under_both_its_names(
    host: Any, attribution: Any, holder: Any, hears: Callable[[ProviderReport], Register]
) -> None:
    """The mapping file has the job's number, the process the task's: two holders would share the GPU's cost."""
    (host.proc / "4711/environ").write_text("SLURM_JOB_ID=81234\0SLURM_ARRAY_JOB_ID=81200\0SLURM_ARRAY_TASK_ID=7\0")
    told = ProviderReport((GpuHold("GPU-a", Attribution("slurm/alpha/81234", "declared", owner="ada")),))
    source = source_of(host, attribution, [holder("GPU-a", 4711)], hears(told))
    (row,) = source.read()["allocations"]
    assert (row["run_id"], row["scheduler"], row["user"]) == ("slurm/alpha/81200_7", "cgroup", "ada")


def test_a_rank_is_that_of_the_gpu_it_works_on(host: Any, attribution: Any, holder: Any) -> None:
    """Every rank leaves a small context on GPU 0, which is rank 0's."""
    for pid, rank in ((4711, 0), (4712, 1)):
        (host.proc / str(pid) / "environ").write_text(f"RANK={rank}\0WORLD_SIZE=2\0")
    holders = [holder("GPU-a", 4712, 2**28), holder("GPU-a", 4711, 2**36), holder("GPU-b", 4712, 2**36)]
    rows = source_of(host, attribution, holders, Register()).read()["allocations"]
    assert {row["gpu_uuid"]: row["rank"] for row in rows} == {"GPU-a": 0, "GPU-b": 1}


def test_a_driver_that_does_not_answer_gives_nothing_back(host: Any, attribution: Any, holder: Any) -> None:
    """What it told before stands for the processes that still live."""
    answers: list[Any] = [None, told([holder("GPU-a", 4711)]), None]
    source = ProcessSource(
        lambda: answers.pop(0), attribution, host.wall, tuple, host.proc, host.sys, monotonic=host.monotonic
    )
    assert source.read() == {}
    assert len(source.read()["allocations"]) == 1
    assert source.read()["allocations"] == []


def test_aliases_of_a_holder_are_told(host: Any, attribution: Any, hears: Callable[[ProviderReport], Register]) -> None:
    """The log directories tell a uid before any process does."""
    names = {"kubernetes/alpha/ml.train-0": Meant(f"kubernetes/alpha/{UID}", "ml/train-0")}
    reading = source_of(host, attribution, [], hears(ProviderReport((KUBELET,), names))).read()
    assert [row["run_id"] for row in reading["allocations"]] == [f"kubernetes/alpha/{UID}"]
    assert len(reading["run_aliases"]) == 1


def test_a_holder_that_cannot_be_read_for_a_moment_has_given_nothing_back(
    host: Any, attribution: Any, holder: Any
) -> None:
    """An agent without a file descriptor to spare saw no process of the host, and every allocation ended."""
    source = source_of(host, attribution, [holder("GPU-a", 4711)], Register())
    source.read()
    stat = host.proc / "4711/stat"
    kept = stat.read_bytes()
    stat.unlink()
    stat.mkdir()  # it is there, and cannot be read
    with pytest.raises(SourceError, match="cannot be read now"):
        source.read()
    stat.rmdir()
    stat.write_bytes(kept)
    assert source.read()["allocations"] == []


def test_a_number_that_is_used_again_is_not_the_holder(host: Any, attribution: Any, holder: Any) -> None:
    """While the driver is silent the kernel alone says who lives, by pid and start."""
    answers = [told([holder("GPU-a", 4711)]), Holding(), Holding()]
    source = ProcessSource(
        lambda: answers.pop(0), attribution, host.wall, tuple, host.proc, host.sys, monotonic=host.monotonic
    )
    assert len(source.read()["allocations"]) == 1
    assert source.read()["allocations"] == []
    stat = host.proc / "4711/stat"
    head, _, rest = stat.read_text().rpartition(")")
    fields = rest.split()
    fields[19] = str(int(fields[19]) + 1)
    stat.write_text(f"{head}) {' '.join(fields)}\n")
    (row,) = source.read()["allocations"]
    assert row["ended_at"] is not None
