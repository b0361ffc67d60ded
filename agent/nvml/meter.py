"""Turn the driver's ever-growing counters into what happened in each interval."""

from collections.abc import Callable
from dataclasses import dataclass

MILLIJOULES_PER_JOULE = 1000


class Meter:
    """A counter that only grows, read once a beat as the amount since the last beat.

    A counter that went back was reset: the interval is unknown, never negative. A beat without a value makes the next
    interval unknown too, since the amount would span two; a meter of rare events (`over_silence`) counts them then
    rather than never.
    """

    def __init__(self, over_silence: bool = False) -> None:
        self._last: int | None = None
        self._over_silence = over_silence

    def amount(self, value: int | None) -> int | None:
        """Return the growth since the last call, or None at the first value, after silence and after a reset."""
        if value is None:
            if not self._over_silence:
                self._last = None
            return None
        last, self._last = self._last, value
        return None if last is None or value < last else value - last


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of one interval, in joules, with the counter that it was read from and that counter's epoch."""

    joules: float | None
    joules_total: float | None
    epoch: int | None


class EnergyMeter:
    """The driver's energy counter in millijoules. It starts anew with the driver; its epoch then changes.

    The epoch is the wall second at which this agent first saw the counter's present life, so that two agents in a row
    never join two lives of the counter into one.
    """

    def __init__(self, wall_seconds: Callable[[], float]) -> None:
        self._wall_seconds = wall_seconds
        self._meter = Meter()
        self._highest: int | None = None
        self._epoch: int | None = None

    def read(self, millijoules: int | None) -> Energy:
        """Return the joules of the interval; None for them at the first value, after silence and after a reset."""
        amount = self._meter.amount(millijoules)
        if millijoules is None:
            return Energy(None, None, None)
        if self._highest is None or millijoules < self._highest:
            self._epoch = max(int(self._wall_seconds()), (self._epoch or 0) + 1)
        self._highest = millijoules
        joules = None if amount is None else amount / MILLIJOULES_PER_JOULE
        return Energy(joules, millijoules / MILLIJOULES_PER_JOULE, self._epoch)
