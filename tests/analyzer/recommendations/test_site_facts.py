"""What forbids a change of a run, as a store tells it: ranks that wait, saves that end it, memory that is full."""

from collections.abc import Iterator
from typing import Any

import pytest

from analyzer.recommendations.site import Placed
from analyzer.recommendations.site_query import read_site
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet
from tests.analyzer.small_site import IDLE

T, END = MONDAY, MONDAY + 2 * HOUR
GB = 10**9
SPINS: dict[str, Any] = {"sm_active_ratio": 0.1}


def process(fleet: Fleet, run: str, node: str, gpu: str, memory: int) -> None:
    """Say that a process of a run holds memory of a GPU."""
    row = {"node": node, "run_id": run, "gpu_uuid": gpu, "pid": 7, "memory_used_bytes": memory}
    fleet.add(
        "process_samples", [row | {"started_at": at, "ended_at": at + MINUTE} for at in range(T, END, 5 * MINUTE)]
    )


def gang(fleet: Fleet, name: str, first: dict[str, Any], second: dict[str, Any], **more: Any) -> list[str]:
    """Hold two GPUs of a host of its own, which do so much, for two hours."""
    gpus = [f"{name}-0", f"{name}-1"]
    fleet.own(name, gpus)
    fleet.hold(f"slurm/alpha/{name}", name, gpus, T, END, name=name, **more)
    for gpu, values in zip(gpus, (first, second), strict=True):
        fleet.sample(name, gpu, T, END, **values)
    return gpus


def host(fleet: Fleet, node: str, **values: Any) -> None:
    """Say how a host was."""
    row = {"node": node, **values}
    fleet.add("host_samples", [row | {"started_at": at, "ended_at": at + MINUTE} for at in range(T, END, MINUTE)])


def failing(fleet: Fleet, name: str, last: int, *, with_dips: bool) -> None:
    """Let a run fail after two hours that saves each half hour, and last of all at this minute, which takes two.

    Its GPUs stand still meanwhile and its host's disk is seen, or it is seen to write beside the training.
    """
    gpus = [f"{name}-0", f"{name}-1"]
    fleet.own(name, gpus)
    fleet.hold(f"slurm/alpha/{name}", name, gpus, T, END, name=name, exit_status="failed")
    rests = IDLE | {"utilization_ratio": 0.1, "utilization_zero_ratio": 0.9, "sm_active_ratio": 0.08}
    for at in range(120):
        begun = T + at * MINUTE
        saves = at in (30, 31, 60, 61, last, last + 1)
        told = (rests if saves and with_dips else {}) | {"pcie_transmit_bytes": 30 * GB if saves else GB // 10}
        for gpu in gpus:
            fleet.sample(name, gpu, begun, begun + MINUTE, **told)
        size = 20 * GB if saves else 4096
        fleet.write(name, begun, begun + MINUTE, written_bytes=size if with_dips else 4096)
        if not with_dips:
            row = {"node": name, "run_id": f"slurm/alpha/{name}", "written_bytes": size}
            fleet.add("run_samples", [row | {"started_at": begun, "ended_at": begun + MINUTE}])


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Placed]]:
    """Runs by name."""
    fleet = Fleet()
    with fleet.together():
        for name, memory in (("waiting", 2 * GB), ("bare", 0), ("unseen", None), ("gauged", None)):
            in_use = {"memory_used_bytes": 3 * 2**20} if name == "gauged" else {}
            first, second = gang(fleet, name, SPINS if name == "waiting" else {}, IDLE | in_use)
            if memory is not None:
                process(fleet, f"slurm/alpha/{name}", name, first, 40 * GB)
            if memory:
                process(fleet, f"slurm/alpha/{name}", name, second, memory)
        for name, values in (
            ("full", {"memory_used_bytes": 190 * GB, "memory_available_bytes": 10 * GB}),
            ("swapping", {"pressure_memory_some_ratio": 0.4}),
            ("roomy", {"memory_used_bytes": 10 * GB, "memory_available_bytes": 190 * GB}),
        ):
            gang(fleet, name, {}, {})
            host(fleet, name, **values)
    fleet.analyze(now=END + HOUR)
    with fleet.store.session() as session:
        yield {one.called: one for one in read_site(session, T, END).runs.values()}
    fleet.store.close()


def test_a_rank_that_waits_is_told_from_a_gpu_that_nobody_touches(runs: dict[str, Placed]) -> None:
    """By its process, else by what memory is in use: no kernel ran on either. What nobody saw is not known."""
    ranks = {name: runs[name].idle_ranks for name in ("waiting", "bare", "gauged", "unseen")}
    assert ranks == {"waiting": 1, "bare": 0, "gauged": 0, "unseen": None}


def test_idle_gpus_of_a_run_are_counted(runs: dict[str, Placed]) -> None:
    """One of two never ran a kernel, and the other works on."""
    assert (runs["bare"].idle_gpus, runs["roomy"].idle_gpus) == (1, 0)


def test_a_gang_that_only_spins_has_computed_nothing(runs: dict[str, Placed]) -> None:
    """A collective that waits fills the GPU in the driver's sense, and a tenth of its SMs."""
    assert (runs["waiting"].has_computed, runs["roomy"].has_computed) == (False, True)


def test_memory_is_full_where_little_is_left_or_processes_wait_for_it(runs: dict[str, Placed]) -> None:
    """What hosts did not say is not known, and neither room nor lack of it."""
    full = {name: runs[name].memory_is_full for name in ("full", "swapping", "roomy", "bare")}
    assert full == {"full": True, "swapping": True, "roomy": False, "bare": None}


def test_a_run_that_ends_in_a_save_is_known_by_it() -> None:
    """As the ledger takes it: a save that reaches into the attempt's last minute was broken off."""
    fleet = Fleet()
    with fleet.together():
        for name, with_dips in (("dips", True), ("bursts", False)):
            failing(fleet, f"{name}-to-the-end", 118, with_dips=with_dips)
            failing(fleet, f"{name}-before", 90, with_dips=with_dips)
    fleet.analyze(now=END + HOUR)
    with fleet.store.session() as session:
        found = {one.called: one.ends_in_saves for one in read_site(session, T, END).runs.values()}
    fleet.store.close()
    assert found == {"dips-to-the-end": True, "dips-before": False, "bursts-to-the-end": True, "bursts-before": False}
