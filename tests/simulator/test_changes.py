"""Changes of the site: they touch what they name, runs do the same work, and each follows its own physics."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.units import DAY_MS, GIB, HOUR_MS, MINUTE_MS
from bench.savings.changes.apply import KINDS, ChangedFleet, changed
from bench.savings.changes.change import Change
from bench.savings.changes.holding import CANCELLED_AFTER, LOOKS_EVERY
from bench.savings.changes.pace import share_of, where
from bench.savings.changes.sharing import SLICES, slice_gpus
from simulator import labels
from simulator.activity import Activity
from simulator.batches import host_blocks
from simulator.fleet import Fleet
from simulator.plan import Plan, Run, seats
from simulator.site import Host
from simulator.timeline import Timeline, lasting
from tests.simulator.conftest import SMALL_KERNELS

PRETRAIN, SFT, OCR, ASR, EMBED = "80217", "81234", "81163", "81177", "81161"
DEBUG, PREPARATION, NOTEBOOKS = "81377", "81240", tuple(f"{80051 + gpu}" for gpu in range(8))
WEDNESDAY = 2 * DAY_MS


def after(fleet: Fleet, kind: str, *runs: str, **more: object) -> list[Run]:
    """Return the named runs after a change, attempts in order."""
    touched = tuple(run for run in fleet.runs if run.plan.number in runs)
    return list(changed(touched, [Change(kind, runs, **more)], fleet.site))  # type: ignore[arg-type]


def before(fleet: Fleet, *runs: str) -> list[Run]:
    """Return the named runs as they are."""
    return [run for run in fleet.runs if run.plan.number in runs]


def truly(timeline: Timeline) -> dict[labels.Label, float]:
    """Return the milliseconds of each label."""
    found: dict[labels.Label, float] = defaultdict(float)
    for at, length in zip(timeline.index.tolist(), np.diff(timeline.edges).tolist(), strict=True):
        for label, share in timeline.activities[at].truth:
            found[label] += share * length
    return found


def counted(timeline: Timeline, signal: str) -> float:
    """Return the whole of what a run counts."""
    ends = np.array([timeline.start, timeline.end])
    return float(np.diff(timeline.cumulated((signal,), ends), axis=0)[0, 0])


def gpu_rows(fleet: Fleet, host: Host, day: int) -> dict[str, np.ndarray]:
    """Return the measured columns of a host's GPUs on one day, GPU after GPU in every beat."""
    blocks = dict(host_blocks(fleet, host, list(fleet.site.chunks())[day]))
    return {name: np.asarray(values) for name, values in blocks["gpu_samples"].columns.items()}


@pytest.fixture(scope="module")
def other(week: Fleet) -> ChangedFleet:
    """The fleet after two changes of a run each, on hosts of their own."""
    return ChangedFleet(week.site, [Change("more_workers", (SFT,)), Change("pin_memory", (EMBED,))])


def test_runs_that_no_change_names_are_what_they_were(week: Fleet, other: ChangedFleet) -> None:
    """The same seed with and without a change must differ in nothing else, or nothing could be laid to the change."""
    assert [run.plan.number for run in other.runs] == [run.plan.number for run in week.runs]
    for ours, theirs in zip(week.runs, other.runs, strict=True):
        same = ours.plan == theirs.plan and all(
            np.array_equal(one.edges, two.edges) for one, two in zip(ours.timelines, theirs.timelines, strict=True)
        )
        assert same == (ours.plan.number not in (SFT, EMBED))


def test_hosts_and_gpus_beside_a_change_show_the_same(week: Fleet, other: ChangedFleet) -> None:
    """As for runs, in what is measured: another host to the last bit, and the other GPUs of the same host."""
    host, neighbour = week.site.host("n04"), week.site.host("n16")
    ours, theirs = gpu_rows(week, host, 0), gpu_rows(other, host, 0)
    for name in ("power_watts", "pcie_receive_bytes", "utilization_ratio"):
        beats = [rows[name].reshape(-1, host.gpus) for rows in (ours, theirs)]
        assert np.array_equal(beats[0][:, 4:], beats[1][:, 4:]), name
        assert not np.array_equal(beats[0][:, :4], beats[1][:, :4]), name
    for (table, block), (_, same) in zip(
        *(host_blocks(fleet, neighbour, list(week.site.chunks())[1]) for fleet in (week, other)), strict=True
    ):
        for name, values in block.columns.items():
            assert np.array_equal(values, same.columns[name], equal_nan=values.dtype.kind == "f"), (table, name)


@pytest.mark.parametrize(
    ("kind", "run", "signal"),
    [
        ("more_workers", SFT, "tokens"),
        ("stage_input", ASR, "samples"),
        ("more_workers", "81100_3", "tokens"),
        ("more_workers", "80911_1", "cores"),
    ],
)
def test_a_changed_run_does_the_same_work_sooner(week: Fleet, kind: str, run: str, signal: str) -> None:
    """What it saves is time: steps, samples and tokens are those of the unchanged run."""
    (was,), (now,) = before(week, run), after(week, kind, run)
    assert now.timelines[0].end < was.timelines[0].end
    assert now.plan.ended == now.timelines[0].end
    if signal != "cores":
        assert counted(now.timelines[0], signal) == pytest.approx(counted(was.timelines[0], signal), rel=1e-3)
    working = {label for label in truly(was.timelines[0]) if label.state == "productive"}
    for label in working:
        assert truly(now.timelines[0])[label] == pytest.approx(truly(was.timelines[0])[label], rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "run", "loss"),
    [
        ("order_ranks", PRETRAIN, labels.CROSS_RACK),
        ("pin_memory", EMBED, labels.HOST_TO_DEVICE),
        ("cache_input", "81150", labels.STORAGE),
        ("more_workers", OCR, labels.PREPROCESSING),
    ],
)
def test_a_change_shortens_its_own_loss_and_no_other(week: Fleet, kind: str, run: str, loss: labels.Label) -> None:
    """Compute, start-up, pauses and checkpoints last as long as before: only the wait that is removed is gone."""
    was, now = (truly(runs[-1].timelines[0]) for runs in (before(week, run), after(week, kind, run)))
    assert now[loss] < was[loss]
    for label in was.keys() - {loss}:
        assert now[label] == pytest.approx(was[label], rel=2e-3, abs=20), label


@pytest.mark.parametrize("kind", ["more_workers", "pin_memory", "stage_input", "cache_input", "order_ranks", "release"])
def test_what_lacks_nothing_gains_nothing(week: Fleet, kind: str) -> None:
    """More workers for a run that waits for its network mount do not make it faster, nor any of these a sound one."""
    sound = "81098"  # seg-train, fed from the page cache
    assert after(week, kind, sound) == before(week, sound)
    if kind == "more_workers":
        assert after(week, kind, ASR) == before(week, ASR)


def test_ranks_stay_in_lockstep(week: Fleet) -> None:
    """All ranks exchange at the same time, whatever else each of them does."""
    for run in after(week, "order_ranks", PRETRAIN):
        starts = [timeline.edges[:-1][where(timeline, lambda phase: phase.fabric > 0)] for timeline in run.timelines]
        assert all(np.array_equal(starts[0], each) for each in starts[1:])
        assert len({timeline.end for timeline in run.timelines}) == 1


def test_hosts_come_rack_by_rack_where_ranks_are_ordered(week: Fleet) -> None:
    """The ledger's next week must see the new order, or would advise it again."""
    (_, run) = after(week, "order_ranks", PRETRAIN)
    ordered = sorted(run.plan.seats, key=lambda seat: seat.rank)
    racks = [week.site.host(seat.node).rack for seat in ordered]
    assert racks == sorted(racks)
    assert [seat.rank for seat in ordered] == list(range(64))


def test_peers_wait_as_long_as_one_hot_host_is_left(week: Fleet) -> None:
    """A synchronous run is as fast as its stragglers: one of two slow hosts taken out saves nothing."""
    one, both = (after(week, "exclude", PRETRAIN, nodes=nodes)[-1].timelines[0] for nodes in (("n11",), ("n11", "n12")))
    was = before(week, PRETRAIN)[-1].timelines[0]
    assert one.end == was.end
    assert truly(both)[labels.STRAGGLER] == 0
    assert was.end - both.end == pytest.approx(truly(was)[labels.STRAGGLER], abs=100)


def test_a_quiet_session_is_ended_after_two_hours(week: Fleet) -> None:
    """Sites warn before they cancel; the hours until then are not saved."""
    (was,), (now, *_) = before(week, DEBUG), after(week, "release", DEBUG)
    quiet = where(was.timelines[0], lambda phase: share_of(phase, labels.ABANDONED) > 0.99)
    fell_quiet = int(was.timelines[0].edges[:-1][quiet][0])
    assert CANCELLED_AFTER <= now.timelines[0].end - fell_quiet <= CANCELLED_AFTER + LOOKS_EVERY
    assert now.plan.exit_status == "cancelled"


def test_some_owners_come_back(week: Fleet) -> None:
    """Side effects a session may start it again: that takes GPUs, and is part of what a release brings."""
    sites = [replace(week.site, seed=seed) for seed in range(1, 60)]
    kept = tuple(before(week, DEBUG))
    came = [changed(kept, [Change("release", (DEBUG,))], site) for site in sites]
    again = [runs[1] for runs in came if len(runs) > 1]
    assert 2 <= len(again) <= 20
    assert all(
        run.plan.attempt == 1 and run.plan.started >= came[0][0].timelines[0].end - 20 * MINUTE_MS for run in again
    )


def test_only_gpus_that_are_never_used_are_not_asked_for(week: Fleet) -> None:
    """A notebook's GPU is used some time, and nobody knows beforehand when."""
    assert after(week, "ask_for_fewer", PREPARATION) == []
    assert after(week, "ask_for_fewer", *NOTEBOOKS) == before(week, *NOTEBOOKS)
    half = after(week, "ask_for_fewer", "80911_6")
    assert [len(run.plan.seats) for run in half] == [1]


class AllNeeded:
    """Random numbers of sessions that need all of the memory they hold."""

    def uniform(self, _low: float, high: float, size: int) -> list[float]:
        """Return the most, every time."""
        return [high] * size


def session(number: int, gibibytes: float, gpus: int = 1) -> Run:
    """Return a run that holds this much memory on GPUs of its own."""
    plan = Plan(str(number), "notebook", "nlp", "gpu", seats((f"h{number}",), tuple(range(gpus))), 0, 0, None, None)
    return Run(plan, (lasting(Activity(memory=gibibytes * GIB), 0, HOUR_MS),), (0,) * gpus)


@given(st.lists(st.floats(1, 80), min_size=1, max_size=12))
def test_slices_fit_their_gpus(sessions: list[float]) -> None:
    """A GPU has eight parts of memory and seven of computation to give, and no session stays without its place."""
    runs = tuple(session(number, held) for number, held in enumerate(sessions))
    now = slice_gpus(runs, AllNeeded())  # type: ignore[arg-type]
    memory: dict[str, int] = defaultdict(int)
    parts: dict[str, int] = defaultdict(int)
    for run, held in zip(now, sessions, strict=True):
        (seat,) = run.plan.seats
        _, part, of_memory = next(each for each in SLICES if held <= each[0])
        memory[seat.node] += of_memory
        parts[seat.node] += part
    assert max(memory.values()) <= 8
    assert max(parts.values()) <= 7
    assert len(memory) <= len(sessions)


def test_a_run_of_several_gpus_keeps_them() -> None:
    """Its ranks would have to exchange gradients across slices."""
    wide = session(1, 4.0, gpus=8)
    assert slice_gpus((wide,), AllNeeded()) == (wide,)  # type: ignore[arg-type]


def test_a_pair_holds_less_than_two_and_more_than_one(week: Fleet) -> None:
    """Two on one GPU slow each other: the pair takes longer than either alone, and less than one after the other."""
    numbers = SMALL_KERNELS
    was, now = before(week, *numbers), after(week, "pack", *numbers)
    assert len(was) == len(now)
    length = {run.plan.number: run.timelines[0].end - run.timelines[0].start for run in was}
    pairs: dict[tuple[int, str, int], list[Run]] = defaultdict(list)
    for run in now:
        if run.plan.shared == 2:
            pairs[run.plan.started, run.plan.seats[0].node, run.plan.seats[0].gpu].append(run)
    assert pairs
    for pair in pairs.values():
        alone = [length[run.plan.number] for run in pair]
        together = max(run.timelines[0].end for run in pair) - min(run.plan.started for run in pair)
        assert max(alone) < together < sum(alone)


def test_a_shorter_cadence_loses_less_and_a_run_not_tried_again_gains_nothing(week: Fleet) -> None:
    """A trial that fails by its own memory fails again from any checkpoint."""
    every_ten_minutes = after(week, "save_more_often", "81173", interval_seconds=600.0)
    every_nine_hours = after(week, "save_more_often", "81173", interval_seconds=9 * 3_600.0)
    assert every_ten_minutes[0] == before(week, "81173")[0]
    assert every_ten_minutes[1].timelines[0].end != every_nine_hours[1].timelines[0].end
    assert every_nine_hours[1].timelines[0].end > before(week, "81173")[1].timelines[0].end
    assert after(week, "save_more_often", "80911_3", interval_seconds=600.0) == before(week, "80911_3")


@pytest.mark.parametrize("kind", ["more_workers", "order_ranks"])
def test_what_was_before_the_change_stays_as_it_was(week: Fleet, kind: str) -> None:
    """A change in mid-week leaves a run that can be compared with itself."""
    number = SFT if kind == "more_workers" else PRETRAIN
    was, now = before(week, number)[0].timelines[0], after(week, kind, number, since=WEDNESDAY)[0].timelines[0]
    until = int((was.edges < WEDNESDAY).sum())
    assert np.array_equal(was.edges[:until], now.edges[:until])
    assert now.end < was.end


def test_an_unknown_change_is_our_own_mistake(week: Fleet) -> None:
    """A bench that silently changed nothing would find that nothing was saved."""
    with pytest.raises(KeyError):
        after(week, "hope", SFT)
    assert "hope" not in KINDS
