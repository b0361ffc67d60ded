"""Turn the driver's ever-growing counters into what happened in each interval."""


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
