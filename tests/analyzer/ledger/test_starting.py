"""What starting is made of, in the ledger: image, load, restore, warm-up; and where a checkpoint was written to."""

from collections.abc import Iterator
from typing import Any

from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
SLURM, POD = "slurm/alpha/1", "kubernetes/prod/1"
IDLE: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
COMPILING: dict[str, Any] = {"utilization_ratio": 0.2, "utilization_zero_ratio": 0.8, "sm_active_ratio": 0.1}
CONTEXT = {"memory_used_bytes": 20 * 10**9}
MINUTE_MS = 60_000

one_pass = OnePass()


def _started(fleet: Fleet, run: str, memory: bool = True, **more: object) -> None:
    """Add a run of an hour: three minutes bare, four with memory, two with first kernels, then work."""
    fleet.own("n1", ["G1"])
    fleet.hold(run, "n1", ["G1"], T, T + HOUR, **{"scheduler": None, "name": "train", **more})
    bare: dict[str, Any] = {"memory_used_bytes": 0} if memory else {}
    held: dict[str, Any] = CONTEXT if memory else {}
    fleet.sample("n1", "G1", T, T + 3 * MINUTE, **(IDLE | bare))
    fleet.sample("n1", "G1", T + 3 * MINUTE, T + 7 * MINUTE, **(IDLE | held))
    fleet.sample("n1", "G1", T + 7 * MINUTE, T + 9 * MINUTE, **(COMPILING | held))
    fleet.sample("n1", "G1", T + 9 * MINUTE, T + HOUR, **held)


def _seen(fleet: Fleet, run: str, at: int, **values: object) -> None:
    """Let the run's cgroup be seen from then on."""
    row: dict[str, object] = {"node": "n1", "run_id": run, "memory_used_bytes": 10**9, **values}
    spans = range(at, T + HOUR, MINUTE)
    fleet.add("run_samples", [row | {"started_at": begun, "ended_at": begun + MINUTE} for begun in spans])


def _starting(fleet: Fleet) -> dict[str | None, int]:
    """Return the minutes of starting by cause, once all is booked and balanced."""
    assert fleet.unbalanced() == []
    return {cause: ms // MINUTE_MS for (state, cause), ms in fleet.states().items() if state == "starting"}


@one_pass
def test_a_pod_pulls_loads_and_warms_up(fleet: Fleet) -> Iterator[None]:
    """No process yet, then memory without kernels, then the first of them."""
    _started(fleet, POD)
    _seen(fleet, POD, T + 2 * MINUTE)
    yield
    assert _starting(fleet) == {"image_pull": 2, "model_load": 5, "warm_up": 2}


@one_pass
def test_a_pods_pause_container_is_no_process_of_it(fleet: Fleet) -> Iterator[None]:
    """Its cgroup is there before its image."""
    _started(fleet, POD)
    _seen(fleet, POD, T, memory_used_bytes=500_000)
    _seen(fleet, POD, T + 2 * MINUTE)
    yield
    assert _starting(fleet) == {"image_pull": 2, "model_load": 5, "warm_up": 2}


@one_pass
def test_a_job_of_a_batch_scheduler_loads(fleet: Fleet) -> Iterator[None]:
    """Its processes are there from the first second; that none is on the GPU yet says nothing of an image."""
    _started(fleet, SLURM)
    _seen(fleet, SLURM, T)
    yield
    assert _starting(fleet) == {"model_load": 7, "warm_up": 2}


@one_pass
def test_a_job_that_unpacks_its_image_itself_pulls_it(fleet: Fleet) -> Iterator[None]:
    """enroot and apptainer write what they unpack within the job's own cgroup."""
    _started(fleet, SLURM)
    _seen(fleet, SLURM, T, written_bytes=4 * 10**9)
    yield
    assert _starting(fleet) == {"image_pull": 3, "model_load": 4, "warm_up": 2}


@one_pass.each((SLURM,), (POD,))
def test_without_the_hosts_word_all_but_the_kernels_is_loading(fleet: Fleet, run: str) -> Iterator[None]:
    """A month of a GPU exporter's figures knows neither processes nor cgroups."""
    _started(fleet, run, memory=False)
    yield
    assert _starting(fleet) == {"model_load": 7, "warm_up": 2}


@one_pass
def test_a_later_attempt_restores(fleet: Fleet) -> Iterator[None]:
    """What it loads is a checkpoint; its image and its first kernels are like any other's."""
    _started(fleet, POD, attempt=1)
    _seen(fleet, POD, T + 2 * MINUTE)
    yield
    assert _starting(fleet) == {"image_pull": 2, "restore": 5, "warm_up": 2}


def test_a_start_across_midnight_has_the_same_parts() -> None:
    """Each day is judged by itself, and sees the signs of the other."""
    fleet = Fleet()
    fleet.own("n1", ["G1"])
    begun = T + 24 * HOUR - 2 * MINUTE
    fleet.hold(POD, "n1", ["G1"], begun, begun + HOUR, name="train")
    fleet.sample("n1", "G1", begun, begun + 4 * MINUTE, **(IDLE | {"memory_used_bytes": 0}))
    fleet.sample("n1", "G1", begun + 4 * MINUTE, begun + 8 * MINUTE, **(IDLE | CONTEXT))
    fleet.sample("n1", "G1", begun + 8 * MINUTE, begun + HOUR, **CONTEXT)
    seen = {"node": "n1", "run_id": POD, "memory_used_bytes": 10**9}
    fleet.add("run_samples", [seen | {"started_at": begun + 3 * MINUTE, "ended_at": begun + HOUR}])
    fleet.analyze(now=T + 48 * HOUR)
    assert fleet.states(POD)["starting", "image_pull"] == 3 * MINUTE_MS
    assert fleet.states(POD)["starting", "model_load"] == 5 * MINUTE_MS


# What a checkpoint wrote to disks of which kind, and where that was.
WRITTEN: tuple[tuple[dict[str | None, int], str], ...] = (
    ({"block": 9 * 10**9}, "storage"),
    ({"nfs": 9 * 10**9}, "network"),
    ({"nfs": 6 * 10**9, "block": 3 * 10**9}, "network"),
    ({"lustre": 3 * 10**9, "block": 6 * 10**9}, "storage"),
    ({None: 9 * 10**9}, "storage"),  # a device of a kind that nobody told
)


@one_pass
def test_a_checkpoint_is_booked_to_where_most_of_it_went(fleet: Fleet) -> Iterator[None]:
    """A slow mount and a slow drive have different owners."""
    at = T + 30 * MINUTE
    stalled: dict[str, Any] = {"utilization_ratio": 0.5, "utilization_zero_ratio": 0.5, "sm_active_ratio": 0.45}
    for number, (disks, _) in enumerate(WRITTEN):
        node, gpu = f"n{number}", f"G{number}"
        fleet.own(node, [gpu])
        fleet.hold(f"slurm/alpha/{number}", node, [gpu], T, T + HOUR)
        fleet.sample(node, gpu, T, at)
        fleet.sample(node, gpu, at, at + MINUTE, **stalled)
        fleet.sample(node, gpu, at + MINUTE, T + HOUR)
        for kind, size in disks.items():
            row = {"node": node, "device": f"d-{kind}", "mount_kind": kind}
            fleet.add(
                "disk_samples",
                [
                    row | {"started_at": one, "ended_at": one + MINUTE, "written_bytes": size if one == at else 1_000}
                    for one in range(T, T + HOUR, MINUTE)
                ],
            )
    yield
    for number, (disks, cause) in enumerate(WRITTEN):
        assert fleet.states(f"slurm/alpha/{number}")["checkpointing", cause] == 30_000, disks
    assert fleet.unbalanced() == []
