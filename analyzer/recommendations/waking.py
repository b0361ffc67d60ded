"""How long hosts of this site take to wake, as their scheduler told it: the price of powering one down."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session

_POWERING_UP = "powering up"  # the reason that collector/schedulers/slurm writes of such a host
_BACK_US = 91 * 86_400_000_000  # a quarter: hosts wake seldom
_LEAST = 3  # wakings, below which one odd night is all that is known


@dataclass(frozen=True, slots=True)
class Waking:
    """Wakings that were seen, the middle one and the one that nine of ten did not exceed, in seconds."""

    seen: int
    p50_seconds: int
    p90_seconds: int


def waking(session: "Session", end_us: int) -> Waking | None:
    """Return how long hosts took to wake in the quarter before `end_us`; None where too few were seen to wake."""
    (query,) = statements("recommendations/wake_ups.sql")
    asked: dict[str, object] = {"since": end_us - _BACK_US, "end": end_us, "powering_up": _POWERING_UP}
    seen, p50, p90 = session.row(query, asked)
    return Waking(seen, p50 // 1_000_000, p90 // 1_000_000) if seen >= _LEAST else None
