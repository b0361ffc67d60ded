"""Which state a second is booked to, and who wins where two could claim it."""

from typing import Any

import pytest

from tests.analyzer.ledger.fleet import DAY, HOUR, MINUTE, MONDAY, Fleet

T = MONDAY
RUN = "slurm/alpha/1"
IDLE: dict[str, Any] = {"utilization_ratio": 0.0, "utilization_zero_ratio": 1.0, "sm_active_ratio": 0.0}
STALLED: dict[str, Any] = {"utilization_ratio": 0.5, "utilization_zero_ratio": 0.5, "sm_active_ratio": 0.45}
LOST: dict[str, Any] = dict.fromkeys(IDLE)


def _one_gpu() -> Fleet:
    fleet = Fleet()
    fleet.own("n1", ["G1"])
    return fleet


def test_a_gpu_that_nobody_holds_is_free() -> None:
    """Spare capacity is not waste; it has a word of its own."""
    fleet = _one_gpu()
    fleet.sample("n1", "G1", T, T + HOUR, **IDLE)
    fleet.analyze()
    assert fleet.states() == {("unallocated", "free"): 3_600_000}


def test_work_is_productive_once_it_has_begun() -> None:
    """The time before the first kernel is starting, the rest is work."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + 5 * MINUTE, **IDLE)
    fleet.sample("n1", "G1", T + 5 * MINUTE, T + HOUR)
    fleet.analyze()
    assert fleet.states() == {("starting", "model_load"): 300_000, ("productive", "compute"): 3_300_000}


def test_starting_ends_after_fifteen_minutes() -> None:
    """A GPU that is never used does not start for ever: from then on it is held for nothing."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, **IDLE)
    fleet.analyze()
    assert fleet.states() == {("starting", "model_load"): 900_000, ("held_idle", "never_used"): 2_700_000}


def test_silence_is_not_idleness() -> None:
    """What was not measured is neither idle nor productive, whoever held it."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR // 2)
    fleet.analyze()
    states = fleet.states()
    assert states["unobserved", "agent_down"] == 1_800_000
    assert ("held_idle", "never_used") not in states


def test_a_host_that_never_reported_is_on_the_ledger() -> None:
    """Owned is declared, not discovered: 24 hosts are owned, agents run on 22, and two are not measured."""
    fleet = Fleet()
    for host in range(24):
        fleet.own(f"n{host}", [f"G{host}"])
        if host < 22:
            fleet.sample(f"n{host}", f"G{host}", T, T + HOUR, **IDLE)
    fleet.analyze()
    assert fleet.states() == {("unallocated", "free"): 22 * 3_600_000, ("unobserved", "never_seen"): 2 * 3_600_000}


def test_a_lost_gpu_is_broken_and_not_silent() -> None:
    """The driver said that the GPU is lost: that was observed."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR // 2)
    fleet.sample("n1", "G1", T + HOUR // 2, T + HOUR, up=False, **LOST)
    fleet.analyze()
    assert fleet.states()["broken", "gpu_lost"] == 1_800_000


def test_a_free_gpu_that_is_lost_is_broken_not_free() -> None:
    """Capacity that cannot be had must not be promised; only the scheduler's drain goes before it."""
    fleet = _one_gpu()
    fleet.sample("n1", "G1", T, T + HOUR, up=False, **LOST)
    fleet.analyze()
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


@pytest.mark.parametrize(("said", "cause"), [("drained", "drained"), ("reserved", "reserved_unused")])
def test_the_scheduler_says_why_a_gpu_is_unallocated(said: str, cause: str) -> None:
    """Drained and reserved hosts are not free, and their GPUs are not broken for being lost."""
    fleet = _one_gpu()
    fleet.sample("n1", "G1", T, T + HOUR, up=False, **LOST)
    fleet.add("node_states", [{"node": "n1", "started_at": T, "ended_at": T + HOUR, "state": said}])
    fleet.analyze()
    assert fleet.states() == {("unallocated", cause): 3_600_000}


def test_a_host_that_is_down_is_broken_although_it_is_silent() -> None:
    """Its scheduler explains the silence."""
    fleet = _one_gpu()
    fleet.sample("n1", "G1", T - DAY, T - DAY + HOUR, **IDLE)
    fleet.add("node_states", [{"node": "n1", "started_at": T, "ended_at": T + HOUR, "state": "down"}])
    fleet.analyze()
    assert fleet.states() == {("broken", "node_down"): 3_600_000}


def test_idle_goes_before_starved() -> None:
    """Ten minutes of quiet are no pause of a loader, even beside stalls that have a cause."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + 2 * HOUR)
    _full_workers(fleet, T, T + 2 * HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, **STALLED)
    fleet.sample("n1", "G1", T + HOUR, T + 2 * HOUR, **IDLE)
    fleet.analyze()
    states = fleet.states()
    assert states["held_idle", "abandoned"] == 3_600_000
    assert states["starved", "preprocessing"] == 1_800_000


def test_starved_needs_evidence_of_the_host() -> None:
    """Low GPUs alone accuse nobody: without a host's figures the loss stays unexplained."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, **STALLED)
    fleet.analyze()
    assert fleet.states()["unexplained", None] == 1_800_000
    with fleet.store.session() as session:
        assert ("waiting for input",) in session.rows("SELECT rule FROM not_evaluated")


def test_a_checkpoint_goes_before_starved() -> None:
    """A dip that writes is overhead, not a want of input."""
    fleet = _one_gpu()
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
    fleet.analyze()
    assert fleet.states()["checkpointing", "storage"] == 30_000
    assert ("starved", "preprocessing") not in fleet.states()


def test_a_slowed_clock_costs_its_fraction_only() -> None:
    """A throttle bit set all the time is no loss of all the time: 10% of the clock is 10%."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    slow: dict[str, Any] = {
        "sm_clock_hertz": 1.8e9,
        "sm_clock_reference_hertz": 2.0e9,
        "throttle_thermal_seconds": 60.0,
    }
    fleet.sample("n1", "G1", T, T + HOUR, **slow)
    fleet.analyze()
    assert fleet.states() == {("throttled", "thermal"): 360_000, ("productive", "compute"): 3_240_000}


def test_throttled_leaves_starved_what_is_still() -> None:
    """Where the GPU stands still there is no clock to lose: the two share a second without overlap."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    _full_workers(fleet, T, T + HOUR)
    slow: dict[str, Any] = {
        "sm_clock_hertz": 1.8e9,
        "sm_clock_reference_hertz": 2.0e9,
        "throttle_thermal_seconds": 60.0,
    }
    fleet.sample("n1", "G1", T, T + HOUR, **(STALLED | slow))
    fleet.analyze()
    assert fleet.states() == {
        ("starved", "preprocessing"): 1_800_000,
        ("throttled", "thermal"): 180_000,
        ("productive", "compute"): 1_620_000,
    }


def test_little_of_the_chip_is_underused_and_not_productive() -> None:
    """Busy in the driver's sense is not busy."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, sm_active_ratio=0.12, tensor_active_ratio=0.01, dram_active_ratio=0.05)
    fleet.analyze()
    assert fleet.states() == {("underused", "small_kernels"): 3_600_000}


def test_what_is_quiet_after_it_was_freed_was_not_abandoned() -> None:
    """A last checkpoint, and a GPU that nobody asks for afterwards: ten minutes of quiet were held, not two hours."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.sample("n1", "G1", T, T + 50 * MINUTE)
    fleet.sample("n1", "G1", T + 50 * MINUTE, T + 3 * HOUR, **IDLE)
    fleet.analyze()
    states = fleet.states()
    assert ("held_idle", "abandoned") not in states
    assert (states["productive", "compute"], states["unallocated", "free"]) == (3_000_000, 7_200_000)


def test_a_service_waits_for_requests_by_design() -> None:
    """The same stillness that would be a loss in training is a service's reserve."""
    fleet = _one_gpu()
    fleet.hold("kubernetes/prod/a", "n1", ["G1"], T, T + HOUR, name="ranker-serve")
    _full_workers(fleet, T, T + HOUR)
    fleet.sample("n1", "G1", T, T + HOUR, **STALLED)
    fleet.analyze()
    assert fleet.states() == {("headroom", "declared"): 1_800_000, ("productive", "decode"): 1_800_000}


def test_failed_work_is_lost_but_idle_time_stays_idle() -> None:
    """Lost work takes only what would otherwise be work: an idle notebook that is killed was idle, not lost."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + 2 * HOUR, exit_status="failed")
    fleet.sample("n1", "G1", T, T + HOUR)
    fleet.sample("n1", "G1", T + HOUR, T + 2 * HOUR, **IDLE)
    fleet.write("n1", T, T + 2 * HOUR)
    fleet.analyze()
    assert fleet.states() == {("lost_work", "failed"): 3_600_000, ("held_idle", "abandoned"): 3_600_000}
    with fleet.store.session() as session:
        assert session.rows("SELECT DISTINCT would_be FROM ledger WHERE state = 'lost_work'") == [("productive",)]


def test_where_no_checkpoint_could_have_been_seen_nobody_knows_what_was_lost() -> None:
    """A month of DCGM's figures says nothing of disks: booking each failed run whole was thirty times too much."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + 2 * HOUR, exit_status="failed")
    fleet.sample("n1", "G1", T, T + 2 * HOUR)
    fleet.analyze()
    assert fleet.states() == {("productive", "compute"): 7_200_000}
    with fleet.store.session() as session:
        said = session.rows("SELECT subject, missing FROM not_evaluated WHERE rule = 'work lost'")
    assert said == [(RUN, "what its hosts wrote to disk, or its own word of checkpoints")]


def test_a_cancelled_run_lost_nothing() -> None:
    """Its owner wanted it to end."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR, exit_status="cancelled")
    fleet.sample("n1", "G1", T, T + HOUR)
    fleet.analyze()
    assert fleet.states() == {("productive", "compute"): 3_600_000}


def test_work_up_to_the_last_checkpoint_is_not_lost() -> None:
    """The run itself said when its state was saved."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR, exit_status="node_failed")
    fleet.sample("n1", "G1", T, T + HOUR)
    said = {"node": "n1", "run_id": RUN, "started_at": T, "ended_at": T + 45 * MINUTE, "checkpoint": "step-900"}
    fleet.add("progress", [said])
    fleet.analyze()
    assert fleet.states() == {("productive", "compute"): 2_700_000, ("lost_work", "node_failed"): 900_000}


def test_a_burst_that_the_run_wrote_may_have_been_a_checkpoint_though_nothing_stood_still() -> None:
    """A save of five seconds, or one beside the training, makes no dip; the work before it is not called lost."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR, exit_status="failed")
    fleet.sample("n1", "G1", T, T + HOUR)
    fleet.write("n1", T, T + HOUR, written_bytes=20 * 10**9)
    said = {"node": "n1", "run_id": RUN}
    minutes = [(T + at * MINUTE, 20 * 10**9 if at == 29 else 4096) for at in range(60)]
    wrote = [said | {"started_at": at, "ended_at": at + MINUTE, "written_bytes": size} for at, size in minutes]
    fleet.add("run_samples", wrote)
    fleet.analyze()
    assert fleet.states() == {("productive", "compute"): 1_800_000, ("lost_work", "failed"): 1_800_000}


def _failed_run(written: dict[int, int], usual: int = 4096, minutes: int = 60) -> Fleet:
    """Return a run of an hour that fails, and what it and its host wrote in which of its minutes."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + minutes * MINUTE, exit_status="failed")
    fleet.sample("n1", "G1", T, T + minutes * MINUTE)
    for at in range(minutes):
        size = written.get(at, usual)
        begun = T + at * MINUTE
        fleet.write("n1", begun, begun + MINUTE, written_bytes=size)
        row = {"node": "n1", "run_id": RUN, "started_at": begun, "ended_at": begun + MINUTE, "written_bytes": size}
        fleet.add("run_samples", [row])
    fleet.analyze()
    return fleet


def _confidence(fleet: Fleet) -> list[str]:
    with fleet.store.session() as session:
        rows = session.rows("SELECT DISTINCT confidence FROM ledger WHERE state = 'lost_work'")
    return [confidence for (confidence,) in rows]


def test_a_small_state_may_be_saved_in_a_small_burst() -> None:
    """40 MB of adapters every ten minutes: at most ten minutes are lost, and that is not sure."""
    fleet = _failed_run(dict.fromkeys(range(5, 60, 10), 40000000))
    assert fleet.states() == {("productive", "compute"): 56 * 60_000, ("lost_work", "failed"): 4 * 60_000}
    assert _confidence(fleet) == ["medium"]


def test_a_save_that_the_failure_broke_off_saved_nothing() -> None:
    """Out of memory while it gathers its state: work has to follow a save, or it was none."""
    fleet = _failed_run({29: 20 * 10**9, 58: 20 * 10**9, 59: 20 * 10**9})
    assert fleet.states() == {("productive", "compute"): 1_800_000, ("lost_work", "failed"): 1_800_000}
    assert _confidence(fleet) == ["high"]


def test_a_run_that_writes_all_along_may_have_saved_all_along() -> None:
    """60 MB in each minute, as molecular dynamics do: that all is lost is not sure."""
    assert _confidence(_failed_run({}, usual=60_000_000)) == ["medium"]
    assert _confidence(_failed_run({}, usual=9_000_000)) == ["high"]


def test_a_long_save_is_one_save() -> None:
    """Six minutes of writing after one burst from the GPUs: all of it is a checkpoint, and none of it input."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    rests = IDLE | {"utilization_ratio": 0.1, "utilization_zero_ratio": 0.9, "sm_active_ratio": 0.08}
    for at in range(60):
        begun, saves = T + at * MINUTE, 20 <= at < 26
        told = (rests if saves else {}) | {"pcie_transmit_bytes": 30 * 10**9 if at == 20 else 10**8}
        fleet.sample("n1", "G1", begun, begun + MINUTE, **told)
        fleet.write("n1", begun, begun + MINUTE, written_bytes=5 * 10**9 if saves else 4096)
    fleet.analyze()
    assert fleet.states()["checkpointing", "storage"] == pytest.approx(6 * 60_000 * 0.9, rel=0.05)


def test_what_another_run_of_the_host_wrote_saved_nothing() -> None:
    """Eight runs of one host write to its disk by turns: the bursts of one are not the checkpoints of the next."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR, exit_status="failed")
    fleet.sample("n1", "G1", T, T + HOUR)
    fleet.write("n1", T, T + 29 * MINUTE, written_bytes=4096)
    fleet.write("n1", T + 29 * MINUTE, T + 30 * MINUTE, written_bytes=20 * 10**9)
    fleet.write("n1", T + 30 * MINUTE, T + HOUR, written_bytes=4096)
    fleet.analyze()
    assert fleet.states() == {("lost_work", "failed"): 3_600_000}


def test_what_rests_beside_another_run_on_the_same_gpu_is_idle_where_the_driver_tells_them_apart() -> None:
    """Its half of the GPU was held, not worked; where the driver says nothing, both have the GPU's state."""
    said = {"node": "n1", "gpu_uuid": "G1", "run_id": "slurm/alpha/2", "pid": 2, "started_at": T, "ended_at": T + HOUR}
    for share, state in ((0.0, ("held_idle", "held_memory")), (None, ("productive", "compute"))):
        fleet = _one_gpu()
        fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
        fleet.hold("slurm/alpha/2", "n1", ["G1"], T, T + HOUR, queue="interactive", name="jupyter")
        fleet.sample("n1", "G1", T, T + HOUR)
        fleet.add("process_samples", [said | {"sm_utilization_ratio": share}])
        fleet.analyze()
        assert fleet.states(RUN) == {("productive", "compute"): 1_800_000}
        assert fleet.states("slurm/alpha/2") == {state: 1_800_000}
        fleet.store.close()


STRANGER = "process/n1/31330.88"


def _beside(share: float | None, own: float | None = 0.31, minutes: range = range(60), **seen: object) -> Fleet:
    """Return a fleet whose run computes on the GPU that it holds, and beside it for some minutes a process."""
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    span = (T + minutes[0] * MINUTE, T + (minutes[-1] + 1) * MINUTE)
    fleet.hold(STRANGER, "n1", ["G1"], *span, scheduler="process", user="u9")
    fleet.sample("n1", "G1", T, T + HOUR)
    for run, part, pid, at in ((RUN, own, 1, range(60)), (STRANGER, share, 2, minutes)):
        row = {"node": "n1", "gpu_uuid": "G1", "run_id": run, "pid": pid, "sm_utilization_ratio": part} | seen
        rows = [row | {"started_at": T + m * MINUTE, "ended_at": T + (m + 1) * MINUTE} for m in at]
        fleet.add("process_samples", rows)
    fleet.analyze()
    return fleet


@pytest.mark.parametrize(
    ("share", "own", "minutes", "taken"),
    [
        (0.66, 0.31, range(60), 2_376_000),
        (0.66, 0.31, range(20, 50), 1_188_000),
        (0.2, 0.7, range(60), 720_000),
        (0.8, 0.6, range(60), 2_057_143),  # more than the whole was told: in proportion
    ],
)
def test_sm_time_that_a_process_past_the_scheduler_took_is_not_its_holders(
    share: float, own: float, minutes: range, taken: int
) -> None:
    """The GPU worked all the hour, and most of it for somebody else: that is no work of who holds it."""
    fleet = _beside(share, own, minutes)
    assert sum(fleet.states(STRANGER).values()) == pytest.approx(taken, abs=4_300)  # a part of 840
    assert sum(fleet.states().values()) == 3_600_000
    assert set(fleet.states()) == {("productive", "compute")}


def test_nobody_takes_from_a_holder_what_no_driver_tells() -> None:
    """No share told, too little of it, or no process of the holder's seen: then all is as its scheduler says."""
    for share, own in ((None, None), (None, 0.9), (0.04, 0.9)):
        assert _beside(share, own).states(STRANGER) == {}
    fleet = _one_gpu()
    fleet.hold(RUN, "n1", ["G1"], T, T + HOUR)
    fleet.hold(STRANGER, "n1", ["G1"], T, T + HOUR, scheduler="process")
    fleet.sample("n1", "G1", T, T + HOUR)
    row = {"node": "n1", "gpu_uuid": "G1", "run_id": STRANGER, "pid": 2, "sm_utilization_ratio": 0.9}
    fleet.add("process_samples", [row | {"started_at": T, "ended_at": T + HOUR}])
    fleet.analyze()
    assert fleet.states(RUN) == {("productive", "compute"): 3_600_000}


def test_what_cannot_be_told_apart_is_told_to_be_shared() -> None:
    """The driver tells no shares: who computes beside the holder is seen, what it took is not."""
    for cpu_seconds, shared in ((60.0, True), (3.0, False), (None, False)):
        fleet = _beside(None, None, memory_used_bytes=2 * 10**9, cpu_seconds=cpu_seconds)
        assert fleet.states(RUN) == {("productive", "compute"): 3_600_000}
        with fleet.store.session() as session:
            assert session.rows("SELECT DISTINCT shared FROM ledger") == [(shared,)]


def test_a_holder_that_rests_while_others_compute_does_not_work() -> None:
    """Its part is what it left, and idle."""
    fleet = _beside(0.9, 0.0)
    assert ("productive", "compute") not in fleet.states(RUN)
    assert sum(fleet.states(RUN).values()) == pytest.approx(360_000, abs=4_300)


def test_a_hang_is_not_communication() -> None:
    """GPUs that spin while nothing crosses the links wait for nobody."""
    fleet = Fleet()
    fleet.own("n1", ["G1", "G2"])
    fleet.hold(RUN, "n1", ["G1", "G2"], T, T + 2 * HOUR)
    for gpu in ("G1", "G2"):
        fleet.sample("n1", gpu, T, T + HOUR, nvlink_receive_bytes=10**12, nvlink_transmit_bytes=10**12)
        fleet.sample("n1", gpu, T + HOUR, T + 2 * HOUR - 20 * MINUTE, nvlink_receive_bytes=0, sm_active_ratio=0.18)
        fleet.sample("n1", gpu, T + 2 * HOUR - 20 * MINUTE, T + 2 * HOUR, nvlink_receive_bytes=10**12)
    fleet.analyze()
    assert fleet.states()["communicating", "hang"] == 2 * 2_400_000


def _full_workers(fleet: Fleet, start: int, end: int, run: str = RUN) -> None:
    """Loader workers that fill their cores."""
    row = {"node": "n1", "run_id": run, "gpu_uuid": "G1", "workers": 4, "workers_busiest_cpu_ratio": 0.98}
    fleet.add(
        "process_samples",
        [row | {"started_at": at, "ended_at": at + 5 * MINUTE} for at in range(start, end, 5 * MINUTE)],
    )
