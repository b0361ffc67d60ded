"""Clocks: whatever the wall clock does, no second is told twice, and none is told that was not measured."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.clock import Clock, Timeline
from agent.errors import SourceError
from agent.sampling.sampler import Sampler, Stamped
from agent.sampling.stamp import Stamper
from agent.source import Reading
from agent.wire.units import SECOND_US
from tests.fake_clock import FakeClock

SECOND = SECOND_US
HOUR = 3600 * SECOND
DAY = 24 * HOUR


@dataclass
class Meter:
    """A source of an amount: as many bytes since its last reading as microseconds have passed meanwhile."""

    clock: FakeClock
    name: str = "disk"
    period_seconds: float = 0.0
    failing: bool = False
    last: int | None = None
    reads: int = 0

    def read(self) -> Reading:
        """Say what was moved since the last reading."""
        self.reads += 1
        if self.failing:
            raise SourceError("the disk sulks")
        now, last = self.clock.monotonic(), self.last
        self.last = now
        return {"disk_samples": [{"device": "nvme0n1", "read_bytes": None if last is None else now - last}]}


@dataclass
class Host:
    """A host with a fast and a slow source, whose clocks do as they are told."""

    clock: FakeClock = field(default_factory=FakeClock)
    told: list[Stamped] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the sampler."""
        self.fast, self.slow = Meter(self.clock), Meter(self.clock, "slow", 10.0)
        self.sampler = Sampler(Stamper("n14"), [self.fast, self.slow], self.clock, 1.0)

    def beat(self, times: int = 1) -> list[Stamped]:
        """Let a second pass and beat, so often."""
        said: list[Stamped] = []
        for _ in range(times):
            self.clock.advance(SECOND)
            said += self.sampler.beat()
        self.told += said
        return [one for one in said if one.started_at < one.ended_at]

    def close(self) -> None:
        """End the threads of the sources."""
        self.sampler.close()


def bytes_of(said: Stamped) -> int | None:
    """Return the amount that was told."""
    value = said.tables["disk_samples"][0].get("read_bytes")
    assert value is None or isinstance(value, int)
    return value


@pytest.fixture
def host() -> Iterator[Host]:
    """Return a host that has been observed for a while."""
    made = Host()
    made.beat(25)
    yield made
    made.close()


FORWARD = [3 * SECOND, 90 * SECOND, HOUR, 3 * DAY]


@pytest.mark.parametrize("step", FORWARD)
@pytest.mark.parametrize("how", ["step", "suspend"])
def test_what_was_not_measured_is_a_gap_of_exactly_that_length(host: Host, how: str, step: int) -> None:
    """A laptop lid, a paused virtual machine, a clock put right: nobody was idle for that long."""
    getattr(host.clock, how)(step)
    missed = host.sampler.beats.missed
    said = host.beat(25)
    assert host.sampler.beats.missed == missed + 1, "the gap is declared"
    for name, longest in (("disk", SECOND), ("slow", 10 * SECOND)):
        own = [one for one in host.told if one.source == name and one.started_at < one.ended_at]
        gaps = [right.started_at - left.ended_at for left, right in pairwise(own)]
        assert sorted(gap for gap in gaps if gap) == [step], name
        assert max(one.ended_at - one.started_at for one in own) <= longest
    assert said[-1].ended_at <= host.clock.wall()


@pytest.mark.parametrize("step", FORWARD)
def test_amounts_are_those_of_their_interval_across_a_step(host: Host, step: int) -> None:
    """A slow source was in the midst of its period: what it moved must not be told as of a shorter one."""
    host.beat(4)
    host.clock.step(step)
    for said in host.beat(25):
        assert bytes_of(said) == said.ended_at - said.started_at


@pytest.mark.parametrize("step", [3 * SECOND, 20 * SECOND, 59 * SECOND])
def test_a_small_step_back_is_waited_for(host: Host, step: int) -> None:
    """Seconds that were told already would be booked twice."""
    host.clock.step(-step)
    before = host.told[-1].ended_at
    said = host.beat(100)
    first = said[1]
    assert first.started_at >= before
    assert all(bytes_of(one) in (None, one.ended_at - one.started_at) for one in said)
    assert said[-1].ended_at == host.clock.wall(), "and then it is followed"
    assert host.sampler.beats.missed >= step // SECOND - 1, "the wait is declared"


@pytest.mark.parametrize("step", [2 * HOUR, 30 * DAY])
def test_a_large_step_back_is_followed_at_once(host: Host, step: int) -> None:
    """A clock that was hours ahead told the future: waiting for it would blind the host for as long."""
    host.clock.step(-step)
    said = host.beat(25)
    assert said[-1].ended_at == host.clock.wall()
    assert len([one for one in said if one.source == "disk"]) == 25
    assert all(bytes_of(one) == one.ended_at - one.started_at for one in said)


def test_a_source_that_is_paused_is_asked_again_after_a_step_back() -> None:
    """Its pause was until a moment on a clock that is now a day away."""
    host = Host()
    host.fast.failing = True
    host.beat(5)
    host.clock.step(-DAY)
    host.fast.failing = False
    asked = host.fast.reads
    host.beat(30)
    assert host.fast.reads > asked
    host.close()


def test_a_slewed_clock_is_no_step(host: Host) -> None:
    """NTP slews by up to 500 ppm, and CLOCK_MONOTONIC with it; what rounding leaves is no gap."""
    for number in range(200):
        host.clock.step(number % 3 - 1)
        host.beat()
    assert host.sampler.beats.missed == 0


def test_the_real_clocks_tick() -> None:
    """Microseconds, of this century, and the monotonic one does not go back."""
    clock = Clock()
    before = clock.monotonic()
    assert clock.wall() > 1_700_000_000 * SECOND
    assert clock.monotonic() >= before


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(1, 40)),
        st.tuples(st.just("step"), st.sampled_from([-DAY, -HOUR, -70, -50, -20, -3, -1, 1, 3, 70, HOUR, DAY])),
        st.tuples(st.just("step"), st.integers(-100 * SECOND, 100 * SECOND)),
        st.tuples(st.just("suspend"), st.integers(1, DAY)),
        st.tuples(st.just("fail"), st.integers(1, 10)),
    ),
    max_size=25,
)


@given(events=EVENTS)
def test_no_second_is_told_twice_and_none_that_was_not_measured(events: list[tuple[str, int]]) -> None:
    """The ledger books what is told; the only exception is a clock that was wrong for long and is put right."""
    host = Host()
    host.beat(3)
    put_right = [0]  # where in the telling the time began anew
    for what, value in events:
        if what == "advance":
            host.beat(value)
        elif what == "fail":
            host.fast.failing = True
            host.beat(value)
            host.fast.failing = False
        else:
            getattr(host.clock, what)(value * SECOND if what == "step" and abs(value) <= 100 else value)
            before = host.sampler._timeline.now()
            host.beat()
            if (back := before - host.sampler._timeline.now()) > 0:
                assert back > Timeline.HOLD - 2 * SECOND, "a smaller one is worth waiting for"
                put_right.append(len(host.told))
    host.close()
    for first, last in pairwise([*put_right, len(host.told)]):
        for name in ("disk", "slow"):
            check([one for one in host.told[first:last] if one.source == name and one.started_at != one.ended_at])
    own = [one for one in host.told if one.source == "disk"]
    assert sum(one.ended_at - one.started_at for one in own) <= host.clock.monotonic(), "no more is told than passed"
    declared = host.sampler.beats.missed or host.sampler.tracks[0].failures
    assert declared or all(left.ended_at == right.started_at for left, right in pairwise(own)), "a gap is declared"


def check(told: list[Stamped]) -> None:
    """Assert what must hold of the intervals of one source, in the order of telling."""
    assert all(one.started_at < one.ended_at for one in told)
    assert all(left.ended_at <= right.started_at for left, right in pairwise(told))
    assert all(bytes_of(one) in (None, one.ended_at - one.started_at) for one in told)


@given(st.lists(st.tuples(st.integers(0, HOUR), st.integers(-DAY, DAY)), max_size=40))
def test_a_timeline_never_goes_back_but_for_a_step_that_is_not_worth_waiting_for(moves: list[tuple[int, int]]) -> None:
    """What asks it for the time between two beats relies on it."""
    clock = FakeClock()
    timeline = Timeline(clock)
    last = timeline.now()
    for passed, step in moves:
        clock.advance(passed)
        assert timeline.now() >= last
        last = timeline.now()
        clock.step(step)
        before = timeline.now()
        timeline.anchor_again()
        assert abs(clock.wall() - timeline.now()) <= Timeline.HOLD + Timeline.STEP_TOLERANCE, "it never strays far"
        assert timeline.now() >= before or before - clock.wall() > Timeline.HOLD - Timeline.STEP_TOLERANCE
        last = timeline.now()
