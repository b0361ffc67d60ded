"""Timelines: cutting, joining and integrating phases loses nothing."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.units import GIB
from simulator import labels
from simulator.activity import NOTHING, Activity, blend, thrown_away
from simulator.large_runs import STAGES, ring, stage_bytes
from simulator.timeline import DENSE, SPINNING, STALLED, Tape, Timeline, joined, lasting

PHASES = (DENSE, SPINNING, STALLED.being(labels.STORAGE), NOTHING)

pieces = st.lists(st.tuples(st.integers(0, len(PHASES) - 1), st.integers(1, 5_000)), min_size=1, max_size=30)


def made(parts: list[tuple[int, int]], start: int = 0) -> Timeline:
    """Return these phases one after another; lengths in milliseconds."""
    tape = Tape(start, start + sum(length for _, length in parts))
    for kind, length in parts:
        tape.play(PHASES[kind], length / 1_000)
    return tape.timeline()


@given(pieces, st.lists(st.integers(-100, 200_000), min_size=2, max_size=20))
def test_integrals_telescope(parts: list[tuple[int, int]], times: list[int]) -> None:
    """Intervals that abut sum to the integral over the whole, wherever they are cut, also outside of the timeline."""
    timeline = made(parts)
    grid = np.array(sorted([-1_000, *times, 10**9]), dtype=np.int64)
    spent = np.diff(timeline.cumulated(("power", "sm"), grid), axis=0).sum(axis=0)
    whole = sum(np.array([PHASES[kind].power, PHASES[kind].sm]) * length / 1_000 for kind, length in parts)
    assert spent == pytest.approx(whole, abs=1e-9)


@given(pieces, st.integers(0, 100_000), st.integers(0, 100_000))
def test_a_change_touches_its_stretch_and_nothing_else(parts: list[tuple[int, int]], one: int, other: int) -> None:
    """An outage lies over whatever ran: the rest keeps its phases and the whole its length."""
    timeline = made(parts)
    start, end = min(one, other), max(one, other)
    changed = timeline.changed(start, end, lambda activity: activity.but(lost=1.0))
    grid = np.array([timeline.start, min(start, timeline.end), min(end, timeline.end), timeline.end], dtype=np.int64)
    lost = np.diff(changed.cumulated(("lost",), grid), axis=0)[:, 0] * 1_000
    assert lost.tolist() == pytest.approx([0, grid[2] - grid[1], 0])
    assert (changed.start, changed.end) == (timeline.start, timeline.end)
    assert (np.diff(changed.edges) > 0).all()


@given(pieces, pieces)
def test_joining_keeps_both(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    """A GPU's week is its runs and the time between them, end to end."""
    one = made(first)
    two = made(second, start=one.end)
    both = joined([one, two])
    grid = np.array([one.start, one.end, two.end], dtype=np.int64)
    apart = [part.cumulated(("power",), grid)[-1, 0] for part in (one, two)]
    assert both.cumulated(("power",), grid)[-1, 0] == pytest.approx(sum(apart))


def test_a_tape_ends_where_it_should() -> None:
    """A run that is preempted ends in the middle of a phase."""
    tape = Tape(0, 10_000).play(DENSE, 8).play(SPINNING, 8)
    assert tape.timeline().end == 10_000
    assert not tape.running


def test_a_checkpoint_that_was_cut_off_saves_nothing() -> None:
    """Only a complete checkpoint can be continued from."""
    saving = STALLED.being(labels.SAVING_LOCALLY)
    tape = Tape(0, 100_000).play(DENSE, 40).play(saving, 10).play(DENSE, 45).play(saving, 60)
    states = [
        (int(length), timeline.activities[at].truth[0][0].state)
        for timeline in [tape.timeline("failed")]
        for length, at in zip(np.diff(timeline.edges), timeline.index, strict=True)
    ]
    assert states == [
        (40_000, "productive"),
        (10_000, "checkpointing"),
        (45_000, "lost_work"),
        (5_000, "checkpointing"),
    ]


def test_what_alternates_quickly_is_the_mean_of_its_parts() -> None:
    """A loader's waits of a third of a second show in the means and in the shares of busy samples."""
    mixed = blend((DENSE, 0.55), (STALLED.being(labels.LOADER_SOFTWARE), 0.45))
    assert mixed.zero == pytest.approx(0.45)
    assert mixed.sm == pytest.approx(0.55 * DENSE.sm)
    assert dict(mixed.truth) == pytest.approx({labels.COMPUTE: 0.55, labels.LOADER_SOFTWARE: 0.45})


def test_a_failure_takes_work_and_not_idleness() -> None:
    """A cancelled notebook was idle, not lost."""
    held = Activity().being(labels.MEMORY_HELD)
    assert thrown_away(held, "failed").truth == held.truth
    assert thrown_away(DENSE, "failed").truth == ((labels.Label("lost_work", "failed", "productive"), 1.0),)


def test_a_ring_moves_what_nccl_tests_say() -> None:
    """An all-reduce moves 2(n-1)/n of the volume over every host's link, at half the rate across the spine."""
    within, across = ring(26e9, 8, 64, crossing=False), ring(26e9, 8, 64, crossing=True)
    assert within.seconds * within.fabric * 8 == pytest.approx(2 * 7 / 8 * 26e9 * 4)
    assert across.seconds == pytest.approx(2 * within.seconds)


def test_a_pipeline_holds_less_from_stage_to_stage() -> None:
    """A micro-batch less under way each, and all within an H100; what is not activations is alike."""
    held = [stage_bytes(stage, 8) for stage in range(STAGES)]
    steps = [one - two for one, two in pairwise(held)]
    assert steps == pytest.approx([34 * 2 * 4096 * 4096 * 4] * (STAGES - 1))
    assert held[-1] - steps[0] - 1.5 * GIB == pytest.approx(26e9 / 8 * (2 + 4 + 12 / 8))
    assert held[0] < 80 * GIB


@given(pieces, st.floats(0.1, 2))
def test_another_memory_is_all_that_changes(parts: list[tuple[int, int]], share: float) -> None:
    """Stages of a pipeline do the same in the same milliseconds; labels stay with them."""
    timeline = joined([made(parts), lasting(DENSE.but(memory=4e9), sum(length for _, length in parts), 10**9)])
    other = timeline.with_memory(share)
    assert [activity.memory for activity in other.activities] == pytest.approx(
        [share * activity.memory for activity in timeline.activities]
    )
    assert [activity.but(memory=0) for activity in other.activities] == [
        activity.but(memory=0) for activity in timeline.activities
    ]
    assert (other.edges == timeline.edges).all()
    assert (other.index == timeline.index).all()


def test_a_gap_is_nothing() -> None:
    """What nobody holds is free, and rests at its idle clock."""
    free = lasting(NOTHING, 0, 1_000)
    assert free.activities[0].truth == ((labels.FREE, 1.0),)
