"""Times of the week, in milliseconds since its start, and what broke when."""

from agent.wire.units import DAY_MS, HOUR_MS, MINUTE_MS
from simulator.outages import Outage

MON, TUE, WED, THU, FRI, SAT, SUN = range(7)

NODE_DIED = 2 * DAY_MS + 13 * HOUR_MS + 12 * MINUTE_MS  # n05, Wednesday 13:12


def clock(day: int, hour: float, minute: float = 0) -> int:
    """Return a time of the week in milliseconds since its start."""
    return round(day * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS)


def week_outages() -> tuple[Outage, ...]:
    """Return what is broken, drained or silent in the week."""
    return (
        Outage("n05", None, NODE_DIED, clock(WED, 18), "down", "Not responding"),
        Outage("n05", None, clock(WED, 18), clock(SAT, 18), "drained", "memory test after crash"),
        Outage("n22", 5, clock(THU, 2, 20), clock(THU, 11, 40), "lost", "Xid 79"),
        Outage("n17", None, clock(SAT, 9), clock(SAT, 15, 30), "silent", ""),
    )
