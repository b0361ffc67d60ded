"""Small readings of a window that several detectors share: unknown stays unknown."""

from analyzer.ledger.windows import RunWindow


def at_least(value: int | None, bar: int) -> bool:
    """True where the value is known and reaches the bar; what is unknown reaches nothing."""
    return value is not None and value >= bar


def most(*values: int | None) -> int | None:
    """Return the largest of the known values, or None where none is known."""
    known = [value for value in values if value is not None]
    return max(known) if known else None


def per_gpu_rate(window: RunWindow, kilobytes: int | None) -> int | None:
    """Return kilobytes in a window as kB per GPU-millisecond (= MB/s), or None where unknown."""
    return None if kilobytes is None or window.ms == 0 else kilobytes // window.ms


def of_busy(window: RunWindow, share: int | None) -> int | None:
    """Return a share of all time as a share of the time with a kernel resident."""
    busy = 1000 - window.still
    return None if share is None or busy <= 0 else min(1000, share * 1000 // busy)
