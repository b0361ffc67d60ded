"""A clock of the agent for tests."""

import threading

from agent.clock import Clock


class FakeClock(Clock):
    """A clock that moves only when told, or when somebody waits: a day passes in no time."""

    def __init__(self, wall: int = 1_795_219_200_000_000) -> None:
        self._wall = wall
        self._monotonic = 0

    def wall(self) -> int:
        """Return the time of day that was set."""
        return self._wall

    def monotonic(self) -> int:
        """Return how far the clock was moved."""
        return self._monotonic

    def advance(self, microseconds: int) -> None:
        """Let time pass on both clocks."""
        self._wall += microseconds
        self._monotonic += microseconds

    def step(self, microseconds: int) -> None:
        """Set the wall clock forward or back, as NTP or an operator does."""
        self._wall += microseconds

    def suspend(self, microseconds: int) -> None:
        """Let the host sleep: the wall clock goes on, and CLOCK_MONOTONIC stands still."""
        self._wall += microseconds

    def wait_until(self, monotonic: int, stop: threading.Event) -> bool:
        """Move to that moment at once, unless stopped."""
        if not stop.is_set():
            self.advance(max(0, monotonic - self._monotonic))
        return stop.is_set()
