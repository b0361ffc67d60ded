"""Times of the week, in milliseconds since its start, and what broke when."""

from simulator.outages import Outage
from simulator.site import DAY, HOUR, MINUTE

MON, TUE, WED, THU, FRI, SAT, SUN = range(7)

NODE_DIED = 2 * DAY + 13 * HOUR + 12 * MINUTE  # n05, Wednesday 13:12


def clock(day: int, hour: float, minute: float = 0) -> int:
    """Return a time of the week in milliseconds since its start."""
    return round(day * DAY + hour * HOUR + minute * MINUTE)


def week_outages() -> tuple[Outage, ...]:
    """Return what is broken, drained or silent in the week."""
    return (
        Outage("n05", None, NODE_DIED, clock(WED, 18), "down", "Not responding"),
        Outage("n05", None, clock(WED, 18), clock(SAT, 18), "drained", "memory test after crash"),
        Outage("n22", 5, clock(THU, 2, 20), clock(THU, 11, 40), "lost", "Xid 79"),
        Outage("n17", None, clock(SAT, 9), clock(SAT, 15, 30), "silent", ""),
    )
