"""Which state a second is booked to, and who wins where two could claim it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.analyzer.ledger.copies import OnePass
from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
RUN = "slurm/alpha/1"
IDLE: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
STALLED: dict[str, Any] = {"utilization_ratio": 0.5, "utilization_zero_ratio": 0.5, "sm_active_ratio": 0.45}
LOST: dict[str, Any] = dict.fromkeys(IDLE)

one_pass = OnePass()


@one_pass
def test_a_gpu_that_nobody_holds_is_free(fleet: Fleet) -> Iterator[None]:
    """Spare capacity is not waste; it has a word of its own."""
    fleet.own("n1", ["G1"])
    fleet.sample("n1", "G1", T, T + HOUR, **IDLE)
    yield
    assert fleet.states() == {("unallocated", "free"): 3_600_000}


@one_pass
def test_work_is_productive_once_it_has_begun(fleet: Fleet) -> Iterator[None]:
    """The time before the first kernel is starting, the rest is work."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + 5 * MINUTE, **IDLE)
    fleet.sample("n1", "G1", T + 5 * MINUTE, T + HOUR)
    yield
    assert fleet.states() == {("starting", "model_load"): 300_000, ("productive", "compute"): 3_300_000}


@one_pass
def test_starting_ends_after_fifteen_minutes(fleet: Fleet) -> Iterator[None]:
    """A GPU that is never used does not start for ever: from then on it is held for nothing."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, **IDLE)
    yield
    assert fleet.states() == {("starting", "model_load"): 900_000, ("held_idle", "never_used"): 2_700_000}


@one_pass
def test_silence_is_not_idleness(fleet: Fleet) -> Iterator[None]:
    """What was not measured is neither idle nor productive, whoever held it."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR // 2)
    yield
    states = fleet.states()
    assert states["unobserved", "agent_down"] == 1_800_000
    assert ("held_idle", "never_used") not in states


@one_pass
def test_a_host_that_never_reported_is_on_the_ledger(fleet: Fleet) -> Iterator[None]:
    """Owned is declared, not discovered: 24 hosts are owned, agents run on 22, and two are not measured."""
    for host in range(24):
        fleet.own(f"n{host}", [f"G{host}"])
        if host < 22:
            fleet.sample(f"n{host}", f"G{host}", T, T + HOUR, **IDLE)
    yield
    assert fleet.states() == {("unallocated", "free"): 22 * 3_600_000, ("unobserved", "never_seen"): 2 * 3_600_000}


@one_pass
def test_a_lost_gpu_is_broken_and_not_silent(fleet: Fleet) -> Iterator[None]:
    """The driver said that the GPU is lost: that was observed."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR // 2)
    fleet.sample("n1", "G1", T + HOUR // 2, T + HOUR, up=False, **LOST)
    yield
    assert fleet.states()["broken", "gpu_lost"] == 1_800_000


@one_pass
def test_a_free_gpu_that_is_lost_is_broken_not_free(fleet: Fleet) -> Iterator[None]:
    """Capacity that cannot be had must not be promised; only the scheduler's drain goes before it."""
    fleet.own("n1", ["G1"])
    fleet.sample("n1", "G1", T, T + HOUR, up=False, **LOST)
    yield
    assert fleet.states() == {("broken", "gpu_lost"): 3_600_000}


def test_a_gpu_that_was_lost_before_it_had_a_name_is_the_slot_that_was_bought() -> None:
    """By another name it would be a GPU that nobody owns, beside a slot that is silent."""
    fleet = Fleet()
    fleet.add("ownership", [{"node": "n1", "slot": slot, "sku": "H100-80GB", "owned_from": MONDAY} for slot in (0, 1)])
    fleet.add("inventory", [{"node": "n1", "gpu_uuid": "G0", "gpu_index": 0, "started_at": MONDAY, "ended_at": MONDAY}])
    fleet.sample("n1", "G0", MONDAY, MONDAY + HOUR)
    fleet.sample("n1", "n1/slot1", MONDAY, MONDAY + HOUR, up=False, utilization_ratio=None)
    fleet.analyze()
    with fleet.store.session() as session:
        rows = session.rows(f"SELECT gpu_uuid, sku, state FROM ledger WHERE hour = {MONDAY} ORDER BY gpu_uuid")
    assert rows == [("G0", "H100-80GB", "unallocated"), ("n1/slot1", "H100-80GB", "broken")]


def test_a_slot_whose_gpu_has_got_its_name_is_no_gpu_beside_it() -> None:
    """Where its first hours are booked only then, one was bought and two would be on the ledger."""
    fleet, later = Fleet(), MONDAY + HOUR
    fleet.add("ownership", [{"node": "n1", "slot": 0, "sku": "H100-80GB", "owned_from": MONDAY}])
    fleet.sample("n1", "n1/slot0", MONDAY, later, up=False, utilization_ratio=None)
    fleet.add("inventory", [{"node": "n1", "gpu_uuid": "G0", "gpu_index": 0, "started_at": later, "ended_at": later}])
    fleet.sample("n1", "G0", later, later + HOUR)
    fleet.analyze()
    assert {row[1] for row in fleet.rows()} == {"G0"}
    assert fleet.unbalanced() == []


@one_pass.each(("drained", "drained"), ("reserved", "reserved_unused"))
def test_the_scheduler_says_why_a_gpu_is_unallocated(fleet: Fleet, said: str, cause: str) -> Iterator[None]:
    """Drained and reserved hosts are not free, and their GPUs are not broken for being lost."""
    fleet.own("n1", ["G1"])
    fleet.sample("n1", "G1", T, T + HOUR, up=False, **LOST)
    fleet.add("node_states", [{"node": "n1", "started_at": T, "ended_at": T + HOUR, "state": said}])
    yield
    assert fleet.states() == {("unallocated", cause): 3_600_000}


@one_pass
def test_a_host_that_is_down_is_broken_although_it_is_silent(fleet: Fleet) -> Iterator[None]:
    """Its scheduler explains the silence."""
    fleet.own("n1", ["G1"])
    fleet.sample("n1", "G1", T - DAY, T - DAY + HOUR, **IDLE)
    fleet.add("node_states", [{"node": "n1", "started_at": T, "ended_at": T + HOUR, "state": "down"}])
    yield
    assert fleet.states() == {("broken", "node_down"): 3_600_000}


@one_pass
def test_idle_goes_before_starved(fleet: Fleet) -> Iterator[None]:
    """Ten minutes of quiet are no pause of a loader, even beside stalls that have a cause."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + 2 * HOUR)
    _full_workers(fleet, T, T + 2 * HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, **STALLED)
    fleet.sample("n1", "G1", T + HOUR, T + 2 * HOUR, **IDLE)
    yield
    states = fleet.states()
    assert states["held_idle", "abandoned"] == 3_600_000
    assert states["starved", "preprocessing"] == 1_800_000


@one_pass
def test_starved_needs_evidence_of_the_host(fleet: Fleet) -> Iterator[None]:
    """Low GPUs alone accuse nobody: without a host's figures the loss stays unexplained."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, **STALLED)
    yield
    assert fleet.states()["unexplained", None] == 1_800_000
    assert "waiting for input" in _missing(fleet)


def _missing(fleet: Fleet) -> dict[str, str]:
    """Return what was missing of the fleet's run, by the rules that were not evaluated for it."""
    told = "SELECT rule, missing FROM not_evaluated WHERE subject = ?"
    with fleet.store.session() as session:
        return dict(session.rows(told, [f"{RUN}{fleet.names_end}"]))


@one_pass
def test_a_checkpoint_goes_before_starved(fleet: Fleet) -> Iterator[None]:
    """A dip that writes is overhead, not a want of input."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    _full_workers(fleet, T, T + HOUR)
    fleet.sample("n1", "G1", T, T + 30 * MINUTE, pcie_transmit_bytes=1_000)
    fleet.sample("n1", "G1", T + 30 * MINUTE, T + 31 * MINUTE, pcie_transmit_bytes=9 * 10**9, **STALLED)
    fleet.sample("n1", "G1", T + 31 * MINUTE, T + HOUR, pcie_transmit_bytes=1_000)
    fleet.add(
        "disk_samples",
        [
            {
                "node": "n1",
                "started_at": at,
                "ended_at": at + MINUTE,
                "device": "nvme0n1",
                "mount_kind": "block",
                "written_bytes": 9 * 10**9 if at == T + 30 * MINUTE else 1_000,
            }
            for at in range(T, T + HOUR, MINUTE)
        ],
    )
    yield
    assert fleet.states()["checkpointing", "storage"] == 30_000
    assert ("starved", "preprocessing") not in fleet.states()


@one_pass
def test_a_slowed_clock_costs_its_fraction_only(fleet: Fleet) -> Iterator[None]:
    """A throttle bit set all the time is no loss of all the time: 10% of the clock is 10%."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    slow: dict[str, Any] = {
        "sm_clock_hertz": 1.8e9,
        "sm_clock_reference_hertz": 2.0e9,
        "throttle_thermal_seconds": 60.0,
    }
    fleet.sample("n1", "G1", T, T + HOUR, **slow)
    yield
    assert fleet.states() == {("throttled", "thermal"): 360_000, ("productive", "compute"): 3_240_000}


@one_pass
def test_throttled_leaves_starved_what_is_still(fleet: Fleet) -> Iterator[None]:
    """Where the GPU stands still there is no clock to lose: the two share a second without overlap."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    _full_workers(fleet, T, T + HOUR)
    slow: dict[str, Any] = {
        "sm_clock_hertz": 1.8e9,
        "sm_clock_reference_hertz": 2.0e9,
        "throttle_thermal_seconds": 60.0,
    }
    fleet.sample("n1", "G1", T, T + HOUR, **(STALLED | slow))
    yield
    assert fleet.states() == {
        ("starved", "preprocessing"): 1_800_000,
        ("throttled", "thermal"): 180_000,
        ("productive", "compute"): 1_620_000,
    }


@one_pass
def test_little_of_the_chip_is_underused_and_not_productive(fleet: Fleet) -> Iterator[None]:
    """Busy in the driver's sense is not busy."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, sm_active_ratio=0.12, tensor_active_ratio=0.01, dram_active_ratio=0.05)
    yield
    assert fleet.states() == {("underused", "small_kernels"): 3_600_000}


@one_pass
def test_what_is_quiet_after_it_was_freed_was_not_abandoned(fleet: Fleet) -> Iterator[None]:
    """A last checkpoint, and a GPU that nobody asks for afterwards: ten minutes of quiet were held, not two hours."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + 50 * MINUTE)
    fleet.sample("n1", "G1", T + 50 * MINUTE, T + 3 * HOUR, **IDLE)
    yield
    states = fleet.states()
    assert ("held_idle", "abandoned") not in states
    assert (states["productive", "compute"], states["unallocated", "free"]) == (3_000_000, 7_200_000)


@one_pass
def test_a_service_waits_for_requests_by_design(fleet: Fleet) -> Iterator[None]:
    """The same stillness that would be a loss in training is a service's reserve."""
    fleet.own("n1", ["G1"])
    fleet.hold("kubernetes/prod/a", "n1", ["G1"], T, T + HOUR, name="ranker-serve")
    _full_workers(fleet, T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, **STALLED)
    yield
    assert fleet.states() == {("headroom", "declared"): 1_800_000, ("productive", "decode"): 1_800_000}


@one_pass
def test_failed_work_is_lost_but_idle_time_stays_idle(fleet: Fleet) -> Iterator[None]:
    """Lost work takes only what would otherwise be work: an idle notebook that is killed was idle, not lost."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + 2 * HOUR, exit_status="failed")
    fleet.sample("n1", "G1", T, T + HOUR)
    fleet.sample("n1", "G1", T + HOUR, T + 2 * HOUR, **IDLE)
    fleet.write("n1", T, T + 2 * HOUR)
    yield
    assert fleet.states() == {("lost_work", "failed"): 3_600_000, ("held_idle", "abandoned"): 3_600_000}
    assert fleet.seen("would_be", "state = 'lost_work'") == ["productive"]


@one_pass
def test_where_no_checkpoint_could_have_been_seen_nobody_knows_what_was_lost(fleet: Fleet) -> Iterator[None]:
    """A month of DCGM's figures says nothing of disks: booking each failed run whole was thirty times too much."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + 2 * HOUR, exit_status="failed")
    fleet.sample("n1", "G1", T, T + 2 * HOUR)
    yield
    assert fleet.states() == {("productive", "compute"): 7_200_000}
    assert _missing(fleet)["work lost"] == "what its hosts wrote to disk, or its own word of checkpoints"


@one_pass
def test_a_cancelled_run_lost_nothing(fleet: Fleet) -> Iterator[None]:
    """Its owner wanted it to end."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR, exit_status="cancelled")
    fleet.sample("n1", "G1", T, T + HOUR)
    yield
    assert fleet.states() == {("productive", "compute"): 3_600_000}


@one_pass
def test_work_up_to_the_last_checkpoint_is_not_lost(fleet: Fleet) -> Iterator[None]:
    """The run itself said when its state was saved."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR, exit_status="node_failed")
    fleet.sample("n1", "G1", T, T + HOUR)
    said = {"node": "n1", "run_id": RUN, "started_at": T, "ended_at": T + 45 * MINUTE, "checkpoint": "step-900"}
    fleet.add("progress", [said])
    yield
    assert fleet.states() == {("productive", "compute"): 2_700_000, ("lost_work", "node_failed"): 900_000}


@one_pass
def test_a_burst_that_the_run_wrote_may_have_been_a_checkpoint_though_nothing_stood_still(
    fleet: Fleet,
) -> Iterator[None]:
    """A save of five seconds, or one beside the training, makes no dip; the work before it is not called lost."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR, exit_status="failed")
    fleet.sample("n1", "G1", T, T + HOUR)
    fleet.write("n1", T, T + HOUR, written_bytes=20 * 10**9)
    said = {"node": "n1", "run_id": RUN}
    minutes = [(T + at * MINUTE, 20 * 10**9 if at == 29 else 4096) for at in range(60)]
    wrote = [said | {"started_at": at, "ended_at": at + MINUTE, "written_bytes": size} for at, size in minutes]
    fleet.add("run_samples", wrote)
    yield
    assert fleet.states() == {("productive", "compute"): 1_800_000, ("lost_work", "failed"): 1_800_000}


def _fails(fleet: Fleet, written: dict[int, int], usual: int = 4096, minutes: int = 60) -> None:
    """Let a run of an hour fail, and say what it and its host wrote in which of its minutes."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + minutes * MINUTE, exit_status="failed")
    fleet.sample("n1", "G1", T, T + minutes * MINUTE)
    for at in range(minutes):
        size = written.get(at, usual)
        begun = T + at * MINUTE
        fleet.write("n1", begun, begun + MINUTE, written_bytes=size)
        row = {"node": "n1", "run_id": RUN, "started_at": begun, "ended_at": begun + MINUTE, "written_bytes": size}
        fleet.add("run_samples", [row])


def _confidence(fleet: Fleet) -> list[object]:
    return fleet.seen("confidence", "state = 'lost_work'")


@one_pass
def test_a_small_state_may_be_saved_in_a_small_burst(fleet: Fleet) -> Iterator[None]:
    """40 MB of adapters every ten minutes: at most ten minutes are lost, and that is not sure."""
    _fails(fleet, dict.fromkeys(range(5, 60, 10), 40000000))
    yield
    assert fleet.states() == {("productive", "compute"): 56 * 60_000, ("lost_work", "failed"): 4 * 60_000}
    assert _confidence(fleet) == ["medium"]


@one_pass
def test_a_save_that_the_failure_broke_off_saved_nothing(fleet: Fleet) -> Iterator[None]:
    """Out of memory while it gathers its state: work has to follow a save, or it was none."""
    _fails(fleet, {29: 20 * 10**9, 58: 20 * 10**9, 59: 20 * 10**9})
    yield
    assert fleet.states() == {("productive", "compute"): 1_800_000, ("lost_work", "failed"): 1_800_000}
    assert _confidence(fleet) == ["high"]


@one_pass.each((60_000_000, "medium"), (9_000_000, "high"))
def test_a_run_that_writes_all_along_may_have_saved_all_along(
    fleet: Fleet, usual: int, confidence: str
) -> Iterator[None]:
    """60 MB in each minute, as molecular dynamics do: that all is lost is not sure."""
    _fails(fleet, {}, usual=usual)
    yield
    assert _confidence(fleet) == [confidence]


@one_pass
def test_a_long_save_is_one_save(fleet: Fleet) -> Iterator[None]:
    """Six minutes of writing after one burst from the GPUs: all of it is a checkpoint, and none of it input."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    rests = IDLE | {"utilization_ratio": 0.1, "utilization_zero_ratio": 0.9, "sm_active_ratio": 0.08}
    for at in range(60):
        begun, saves = T + at * MINUTE, 20 <= at < 26
        told = (rests if saves else {}) | {"pcie_transmit_bytes": 30 * 10**9 if at == 20 else 10**8}
        fleet.sample("n1", "G1", begun, begun + MINUTE, **told)
        fleet.write("n1", begun, begun + MINUTE, written_bytes=5 * 10**9 if saves else 4096)
    yield
    assert fleet.states()["checkpointing", "storage"] == pytest.approx(6 * 60_000 * 0.9, rel=0.05)


@one_pass
def test_what_another_run_of_the_host_wrote_saved_nothing(fleet: Fleet) -> Iterator[None]:
    """Eight runs of one host write to its disk by turns: the bursts of one are not the checkpoints of the next."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR, exit_status="failed")
    fleet.sample("n1", "G1", T, T + HOUR)
    fleet.write("n1", T, T + 29 * MINUTE, written_bytes=4096)
    fleet.write("n1", T + 29 * MINUTE, T + 30 * MINUTE, written_bytes=20 * 10**9)
    fleet.write("n1", T + 30 * MINUTE, T + HOUR, written_bytes=4096)
    yield
    assert fleet.states() == {("lost_work", "failed"): 3_600_000}


@one_pass.each((0.0, ("held_idle", "held_memory")), (None, ("productive", "compute")))
def test_what_rests_beside_another_run_on_the_same_gpu_is_idle_where_the_driver_tells_them_apart(
    fleet: Fleet, share: float | None, state: tuple[str, str]
) -> Iterator[None]:
    """Its half of the GPU was held, not worked; where the driver says nothing, both have the GPU's state."""
    said = {"node": "n1", "gpu_uuid": "G1", "run_id": "slurm/alpha/2", "pid": 2, "started_at": T, "ended_at": T + HOUR}
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.hold("slurm/alpha/2", "n1", ["G1"], T, T + HOUR, queue="interactive", name="jupyter")
    fleet.sample("n1", "G1", T, T + HOUR)
    fleet.add("process_samples", [said | {"sm_utilization_ratio": share}])
    yield
    assert fleet.states(RUN) == {("productive", "compute"): 1_800_000}
    assert fleet.states("slurm/alpha/2") == {state: 1_800_000}


STRANGER = "process/n1/31330.88"


def _beside(
    fleet: Fleet, share: float | None, own: float | None = 0.31, minutes: range = range(60), **seen: object
) -> None:
    """Let a run compute on the GPU that it holds, and beside it for some minutes a process."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    span = (T + minutes[0] * MINUTE, T + (minutes[-1] + 1) * MINUTE)
    fleet.hold(STRANGER, "n1", ["G1"], *span, scheduler="process", user="u9")
    fleet.sample("n1", "G1", T, T + HOUR)
    for run, part, pid, at in ((RUN, own, 1, range(60)), (STRANGER, share, 2, minutes)):
        row = {"node": "n1", "gpu_uuid": "G1", "run_id": run, "pid": pid, "sm_utilization_ratio": part} | seen
        rows = [row | {"started_at": T + m * MINUTE, "ended_at": T + (m + 1) * MINUTE} for m in at]
        fleet.add("process_samples", rows)


@one_pass.each(
    (0.66, 0.31, range(60), 2_376_000),
    (0.66, 0.31, range(20, 50), 1_188_000),
    (0.2, 0.7, range(60), 720_000),
    (0.8, 0.6, range(60), 2_057_143),  # more than the whole was told: in proportion
)
def test_sm_time_that_a_process_past_the_scheduler_took_is_not_its_holders(
    fleet: Fleet, share: float, own: float, minutes: range, taken: int
) -> Iterator[None]:
    """The GPU worked all the hour, and most of it for somebody else: that is no work of who holds it."""
    _beside(fleet, share, own, minutes)
    yield
    assert sum(fleet.states(STRANGER).values()) == pytest.approx(taken, abs=4_300)  # a part of 840
    assert sum(fleet.states().values()) == 3_600_000
    assert set(fleet.states()) == {("productive", "compute")}


@one_pass.each((None, None), (None, 0.9), (0.04, 0.9))
def test_nobody_takes_from_a_holder_what_no_driver_tells(
    fleet: Fleet, share: float | None, own: float | None
) -> Iterator[None]:
    """No share told, or too little of it: then all is as its scheduler says."""
    _beside(fleet, share, own)
    yield
    assert fleet.states(RUN)
    assert fleet.states(STRANGER) == {}


@one_pass
def test_nobody_takes_from_a_holder_of_whom_no_process_is_seen(fleet: Fleet) -> Iterator[None]:
    """What one process took says nothing of what is left where the holder's own are not told."""
    fleet.own("n1", ["G1"])
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.hold(STRANGER, "n1", ["G1"], T, T + HOUR, scheduler="process")
    fleet.sample("n1", "G1", T, T + HOUR)
    row = {"node": "n1", "gpu_uuid": "G1", "run_id": STRANGER, "pid": 2, "sm_utilization_ratio": 0.9}
    fleet.add("process_samples", [row | {"started_at": T, "ended_at": T + HOUR}])
    yield
    assert fleet.states(RUN) == {("productive", "compute"): 3_600_000}


@one_pass.each((60.0, True), (3.0, False), (None, False))
def test_what_cannot_be_told_apart_is_told_to_be_shared(
    fleet: Fleet, cpu_seconds: float | None, shared: bool
) -> Iterator[None]:
    """The driver tells no shares: who computes beside the holder is seen, what it took is not."""
    _beside(fleet, None, None, memory_used_bytes=2 * 10**9, cpu_seconds=cpu_seconds)
    yield
    assert fleet.states(RUN) == {("productive", "compute"): 3_600_000}
    assert fleet.seen("shared") == [shared]


@one_pass
def test_a_holder_that_rests_while_others_compute_does_not_work(fleet: Fleet) -> Iterator[None]:
    """Its part is what it left, and idle."""
    _beside(fleet, 0.9, 0.0)
    yield
    assert ("productive", "compute") not in fleet.states(RUN)
    assert sum(fleet.states(RUN).values()) == pytest.approx(360_000, abs=4_300)


@one_pass
def test_a_hang_is_not_communication(fleet: Fleet) -> Iterator[None]:
    """GPUs that spin while nothing crosses the links wait for nobody."""
    fleet.own("n1", ["G1", "G2"])
    fleet.hold(RUN, "n1", ["G1", "G2"], T, T + 2 * HOUR)
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, T, T + HOUR, nvlink_receive_bytes=10**12, nvlink_transmit_bytes=10**12)
        fleet.sample("n1", gpu, T + HOUR, T + 2 * HOUR - 20 * MINUTE, nvlink_receive_bytes=0, sm_active_ratio=0.18)
        fleet.sample("n1", gpu, T + 2 * HOUR - 20 * MINUTE, T + 2 * HOUR, nvlink_receive_bytes=10**12)
    yield
    assert fleet.states()["communicating", "hang"] == 2 * 2_400_000


def _full_workers(fleet: Fleet, start: int, end: int, run: str = RUN) -> None:
    """Loader workers that fill their cores."""
    row = {"node": "n1", "run_id": run, "gpu_uuid": "G1", "workers": 4, "workers_busiest_cpu_ratio": 0.98}
    fleet.add(
        "process_samples",
        [row | {"started_at": at, "ended_at": at + 5 * MINUTE} for at in range(start, end, 5 * MINUTE)],
    )
