"""Time, injected: what the wall says, what the monotonic clock says, and waiting. All in integer microseconds."""

import threading
import time

from agent.wire.units import SECOND_US


class Clock:
    """The host's own clocks."""

    def wall(self) -> int:
        """Return the time of day in microseconds UTC; it may jump."""
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        """Return microseconds since some fixed point of this boot; it never jumps and never goes back."""
        return time.monotonic_ns() // 1000

    def wait_until(self, monotonic: int, stop: threading.Event) -> bool:
        """Sleep until then, or until `stop` is set; return whether it is set."""
        return stop.wait(max(0.0, (monotonic - self.monotonic()) / SECOND_US))


class Timeline:
    """The wall time of one stream: anchored once, then moved by the monotonic clock, so that intervals abut.

    CLOCK_MONOTONIC is slewed with the wall clock and differs from it only by steps, and by suspends, while which it
    stands still. After a step larger than the tolerance the timeline is anchored anew, which the sampler declares as
    a gap. A step back of up to HOLD is waited for, so that no second is told twice; after a larger one, which corrects
    a clock that was wrong for long, the right time is told at once, although some of it was told before.
    """

    STEP_TOLERANCE = 2 * SECOND_US
    HOLD = 60 * SECOND_US  # the longest silence that one step back is worth

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.wall() - clock.monotonic()
        self._told_until = self._moving()

    def now(self) -> int:
        """Return microseconds UTC on this timeline; it stands still while it waits for a step back."""
        return max(self._moving(), self._told_until)

    @property
    def waits(self) -> bool:
        """Whether the time that it is by now was told before a step back."""
        return self._moving() < self._told_until

    def anchor_again(self) -> int:
        """Follow a step of the wall clock, and return it in microseconds; 0 where there was none worth following."""
        step = self._clock.wall() - self._moving()
        if abs(step) <= self.STEP_TOLERANCE:
            return 0
        told = self.now()
        self._offset += step
        self._told_until = told if told - self._moving() <= self.HOLD else self._moving()
        return step

    def _moving(self) -> int:
        return self._clock.monotonic() + self._offset
