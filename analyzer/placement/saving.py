"""What a change may save: the loss of a finding, scaled to a week, times the share that such changes recover."""

from dataclasses import dataclass

from analyzer.placement.recommendation import Range

WEEK_US = 7 * 86_400_000_000


@dataclass(frozen=True, slots=True)
class Share:
    """The share of a loss that a change recovers, in permille: careful (P20), likely (P50), lucky (P80).

    These are assumptions until realised savings calibrate them, and every recommendation says so.
    """

    p20: int
    p50: int
    p80: int


ASSUMED = {
    "setting": Share(700, 850, 950),  # one more of what was measured to be the limit
    "faster_storage": Share(600, 800, 950),
    "release": Share(900, 950, 1000),  # what is given back is no longer lost
    "share": Share(300, 500, 650),
    "checkpoint_more": Share(300, 500, 700),
    "repair": Share(500, 800, 1000),
}


def reordering(crossings: int, racks: int) -> Share:
    """Return what ordering ranks by rack recovers: the ring then crosses once a rack (algorithms 3)."""
    avoided = 1000 * (crossings - racks) // crossings if crossings > racks else 0
    return Share(avoided * 2 // 3, avoided, min(1000, avoided * 9 // 8))


def weekly(amount: int, period_us: int, share: Share) -> Range:
    """Return what a share of a period's loss, in milliseconds or in micros, is in a week."""
    week = amount * WEEK_US // max(1, period_us)
    return Range(week * share.p20 // 1000, week * share.p50 // 1000, week * share.p80 // 1000)
