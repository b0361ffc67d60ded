"""The beat: intervals abut, silence is a gap, and no source can hurt another."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.clock import Timeline
from agent.errors import DriverChangedError, SourceError, SourceLostError
from agent.sampling.sampler import HANG_SECONDS as LONGEST_SECONDS
from agent.sampling.sampler import Paced, Sampler, Stamped
from agent.sampling.stamp import Stamper
from agent.source import Reading, Row, Source
from agent.wire.units import SECOND_US
from tests.fake_clock import FakeClock
from tests.waiting import PATIENCE_SECONDS, until

SECOND = SECOND_US
HANG_SECONDS = 1.0  # waited out by who hangs; the others must have answered by then, however busy the machine is


class Scripted:
    """A source that answers as it is told; each call may let time pass or fail."""

    def __init__(self, name: str, answer: Callable[[], Reading], period_seconds: float = 0.0) -> None:
        self.name = name
        self.period_seconds = period_seconds
        self._answer = answer
        self.calls = 0

    def read(self) -> Reading:
        """Answer."""
        self.calls += 1
        return self._answer()


def host() -> Reading:
    """Say one gauge."""
    return {"host_samples": [{"cpu_busy_ratio": 0.5}]}


def disk() -> Reading:
    """Say one amount and one gauge."""
    return {"disk_samples": [{"device": "nvme0n1", "read_bytes": 100, "busy_ratio": 0.1}]}


_MADE: list[Sampler] = []


@pytest.fixture(autouse=True)
def _samplers_end_with_their_test() -> Iterator[None]:
    yield
    while _MADE:
        _MADE.pop().close()


def sampler(clock: FakeClock, *sources: Source, period: float = 1.0, hang_seconds: float = LONGEST_SECONDS) -> Sampler:
    """Make a sampler on a fake clock, whose threads end with the test."""
    _MADE.append(Sampler(Stamper("n14"), sources, clock, period, hang_seconds=hang_seconds))
    return _MADE[-1]


def run(beating: Sampler, beats: int) -> list[Stamped]:
    """Beat this often, and once more at the end, as a stopped agent does."""
    stop = threading.Event()
    said: list[Stamped] = []
    count = 0

    def deliver(stamped: Sequence[Stamped]) -> None:
        nonlocal count
        said.extend(stamped)
        count += 1
        if count == beats:
            stop.set()

    beating.run(stop, deliver)
    return said


def test_intervals_abut() -> None:
    """A float length here and there would open gaps that the ledger has to book as not measured."""
    clock = FakeClock()
    intervals = [(said.started_at, said.ended_at) for said in run(sampler(clock, Scripted("host", host)), 50)]
    assert len(intervals) == 49
    assert all(left[1] == right[0] for left, right in pairwise(intervals))
    assert all(started < ended for started, ended in intervals)


def test_a_slow_source_keeps_its_own_last_end() -> None:
    """A source read every ten seconds speaks for ten seconds, beside one that speaks for one."""
    clock = FakeClock()
    said = run(sampler(clock, Scripted("host", host), Scripted("disk", disk, period_seconds=10.0)), 31)
    slow = [one for one in said if one.source == "disk"]
    assert [one.ended_at - one.started_at for one in slow] == [10 * SECOND] * 3


@given(st.lists(st.integers(0, 4_000_000), min_size=2, max_size=60))
def test_no_delay_makes_intervals_overlap(delays: list[int]) -> None:
    """However long readings take, no microsecond is told twice, and what is not told is longer than three periods."""
    clock = FakeClock()
    waits = iter(delays)

    def slow() -> Reading:
        clock.advance(next(waits, 0))
        return host()

    said = run(sampler(clock, Scripted("host", slow)), len(delays))
    for left, right in pairwise(said):
        assert left.ended_at <= right.started_at
        assert right.started_at == left.ended_at or right.ended_at - left.ended_at > 3 * SECOND


class Oversleeper(FakeClock):
    """A clock of a host that was stopped: some waits end later than asked."""

    def __init__(self, overslept: list[int]) -> None:
        super().__init__()
        self._overslept = iter(overslept)

    def wait_until(self, monotonic: int, stop: threading.Event) -> bool:
        """Wait, and then some."""
        super().wait_until(monotonic, stop)
        self.advance(next(self._overslept, 0))
        return stop.is_set()


def test_late_and_missed_beats_are_counted() -> None:
    """A beat that silently slips looks like a quiet host."""
    clock = Oversleeper([0, 400_000, 700_000, 5_200_000])
    beating = sampler(clock, Scripted("host", host))
    run(beating, 6)
    assert (beating.beats.late, beating.beats.missed, beating.beats.count) == (2, 5, 6)


def test_a_slow_reading_costs_beats_that_are_counted() -> None:
    """A driver that hangs for five seconds has made five beats impossible."""
    clock = FakeClock()
    waits = iter([0, 700_000, 5_200_000])

    def slow() -> Reading:
        clock.advance(next(waits, 0))
        return host()

    beating = sampler(clock, Scripted("host", slow))
    run(beating, 5)
    assert (beating.beats.late, beating.beats.missed, beating.beats.count) == (0, 5, 5)


def test_after_silence_an_interval_covers_one_period_and_no_amounts() -> None:
    """A mean of the last seconds must not speak for an hour; nor may the bytes of an hour look like one second's."""
    clock = FakeClock()
    failing = False

    def sometimes() -> Reading:
        if failing:
            raise SourceError("the disk sulks")
        return disk()

    beating = sampler(clock, Scripted("disk", sometimes))
    beating.beat()
    clock.advance(SECOND)
    beating.beat()
    failing = True
    for _ in range(10):
        clock.advance(SECOND)
        assert beating.beat() == []
    failing = False
    clock.advance(60 * SECOND)
    (said,) = beating.beat()
    assert said.ended_at - said.started_at == SECOND
    (row,) = said.tables["disk_samples"]
    assert "read_bytes" not in row
    assert row["busy_ratio"] == 0.1


@pytest.mark.parametrize("error", [SourceError("no answer"), SourceLostError("off the bus"), ValueError("our mistake")])
def test_a_failing_source_stops_no_other(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """One dead mount must not blind the host; the change of state is logged once, not at every beat."""
    clock = FakeClock()

    def fail() -> Reading:
        raise error

    beating = sampler(clock, Scripted("disk", fail), Scripted("host", host))
    with caplog.at_level(logging.INFO):
        said = run(beating, 20)
    assert {one.source for one in said} == {"host"}
    assert beating.tracks[0].failures == 6, "asked at beats 0, 1, 3, 7 and 15, and at the end"
    assert sum("cannot be read" in record.message for record in caplog.records) == 1


def test_a_failing_source_is_asked_at_least_once_a_minute() -> None:
    """A driver that came back must not stay unread for an hour."""
    clock = FakeClock()

    def fail() -> Reading:
        raise SourceError("no answer")

    dead = Scripted("disk", fail)
    run(sampler(clock, dead), 600)
    assert 600 / 60 <= dead.calls <= 600 / 60 + 8


class Stuck:
    """A source that hangs until it is let go."""

    name = "stuck"
    period_seconds = 0.0

    def __init__(self) -> None:
        self.go = threading.Event()
        self.done = threading.Event()
        self.calls = 0

    def read(self) -> Reading:
        """Answer late."""
        self.calls += 1
        if self.calls == 3:
            self.go.wait(PATIENCE_SECONDS)
        answer: Reading = {"disk_samples": [{"device": "nvme0n1", "read_bytes": self.calls}]}
        if self.calls == 3:
            self.done.set()
        return answer


def test_a_hung_source_delays_no_other_and_is_asked_no_second_time() -> None:
    """Nothing ends a hung call from outside; a queue of questions behind it would only grow."""
    clock, stuck = FakeClock(), Stuck()
    beating = sampler(clock, stuck, Scripted("host", host), hang_seconds=HANG_SECONDS)
    said = run(beating, 50)
    stuck.go.set()
    assert stuck.calls == 3
    assert sum(one.source == "host" for one in said) == 49, "each but the first, which measures nothing"
    assert beating.tracks[0].hung == 1


def test_what_came_too_late_is_told_with_when_it_came() -> None:
    """It may hold the only word of a GPU that was found, or of an allocation that ended."""
    clock, stuck = FakeClock(), Stuck()
    beating = sampler(clock, stuck, period=10.0, hang_seconds=HANG_SECONDS)
    for _ in range(3):
        beating.beat()
        clock.advance(10 * SECOND)
    stuck.go.set()
    assert stuck.done.wait(PATIENCE_SECONDS)
    clock.advance(0)
    until(lambda: not beating.tracks[0]._thread._answers.empty(), "the answer has come from the other thread")
    clock.advance(5 * SECOND)
    said = beating.beat()
    assert [one.tables["disk_samples"][0]["read_bytes"] for one in said] == [3, 4]
    late, fresh = said
    assert late.ended_at == fresh.started_at == fresh.ended_at - 5 * SECOND


def test_recovery_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Who reads the log must see that it is over."""
    clock = FakeClock()
    answers = iter([True, False, False])

    def sometimes() -> Reading:
        if next(answers, False):
            raise SourceError("not yet")
        return host()

    with caplog.at_level(logging.INFO):
        run(sampler(clock, Scripted("host", sometimes)), 5)
    assert [record.message for record in caplog.records if "can be read again" in record.message] == [
        "host can be read again"
    ]


def test_a_replaced_driver_ends_the_agent() -> None:
    """The old library can never read the new driver; only a new process can, so the supervisor must start one."""

    def replaced() -> Reading:
        raise DriverChangedError("570.86 became 575.51")

    with pytest.raises(DriverChangedError):
        run(sampler(FakeClock(), Scripted("gpu", replaced)), 2)


def test_facts_of_the_first_reading_are_told_with_the_first_interval() -> None:
    """Inventory is told once; a first reading that measures nothing must not swallow it, nor a slow period delay it."""
    clock = FakeClock()
    answers: list[Reading] = [{"inventory": [{"rack": "rack-1"}]}]
    source = Scripted("inventory", lambda: answers.pop() if answers else {}, period_seconds=600.0)
    said = run(sampler(clock, source), 3)
    assert [row["rack"] for one in said for row in one.tables.get("inventory", [])] == ["rack-1"]
    assert said[0].ended_at - said[0].started_at == SECOND


def test_rows_with_times_of_their_own_keep_them() -> None:
    """An allocation says when it began; the beat that saw it does not."""
    clock = FakeClock()
    row: Row = {"run_id": "slurm/alpha/1", "gpu_uuid": "GPU-0", "started_at": 5, "ended_at": None}
    said = run(sampler(clock, Scripted("process", lambda: {"allocations": [row]})), 1)
    assert said[0].tables["allocations"][0] == {"node": "n14", **row}


def test_a_step_of_the_wall_clock_is_followed_and_declared() -> None:
    """A host that boots in 1970 and is then corrected must not stay half a century off."""
    clock = FakeClock()
    beating = sampler(clock, Scripted("host", host))
    beating.beat()
    clock.advance(SECOND)
    clock.step(3600 * SECOND)
    (before,) = beating.beat()
    clock.advance(SECOND)
    (after,) = beating.beat()
    assert before.ended_at - before.started_at == SECOND
    assert after.ended_at == clock.wall()
    assert after.ended_at - after.started_at == SECOND
    assert beating.beats.missed == 1


def test_small_steps_are_not_followed() -> None:
    """NTP's nudges would otherwise open a gap an hour."""
    clock = FakeClock()
    timeline = Timeline(clock)
    clock.step(SECOND)
    assert timeline.anchor_again() == 0
    assert timeline.now() == clock.wall() - SECOND


def test_a_source_can_be_paced() -> None:
    """`gpuledger run` reads GPUs ten times a second; the host does not need that."""
    clock = FakeClock()
    source = Scripted("host", host)
    run(sampler(clock, Paced(source, 1.0), period=0.1), 21)
    assert source.calls == 4  # at 0, 1 and 2 seconds, and at the end


def test_the_beat_can_slow_down() -> None:
    """A recording of a week at ten readings a second would fill the disk."""
    clock = FakeClock()
    beating = sampler(clock, Scripted("host", host), period=0.1)
    beating.slow_to(10.0)
    assert [one.ended_at - one.started_at for one in run(beating, 3)] == [10 * SECOND, 10 * SECOND]


def test_impossible_values_are_left_out_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The collector refuses a whole batch for one of them; a sensor gone mad must not cost its host's readings."""
    clock = FakeClock()
    rows: list[Row] = [
        {"cpu_busy_ratio": 1.7, "cpu_iowait_ratio": float("nan"), "memory_used_bytes": "much", "colour": 3}
    ]
    beating = sampler(clock, Scripted("host", lambda: {"host_samples": rows}))
    said = run(beating, 3)
    assert said[0].tables["host_samples"][0].keys() == {"node", "started_at", "ended_at"}
    assert beating.plausibility.refused == 4 * len(said)
    assert len(caplog.records) == 4, "each column is named once"


def test_a_row_without_its_key_is_left_out() -> None:
    """A GPU row without a GPU can be booked to nobody."""
    clock = FakeClock()
    said = run(sampler(clock, Scripted("gpu", lambda: {"gpu_samples": [{"up": True}, {"gpu_uuid": "GPU-1"}]})), 2)
    assert [row["gpu_uuid"] for row in said[0].tables["gpu_samples"]] == ["GPU-1"]


def test_a_table_that_the_contract_does_not_know_is_our_mistake_and_stops_nobody() -> None:
    """A source of a newer release in an older agent must not end it."""
    said = run(sampler(FakeClock(), Scripted("odd", lambda: {"colours": []}), Scripted("host", host)), 3)
    assert {one.source for one in said} == {"host"}
