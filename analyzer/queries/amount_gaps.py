"""Which hours of a period have no amounts, so that a figure of what is left says what is not in it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent.wire.units import HOUR_US
from analyzer.period import Period
from analyzer.text.words import counted, moment_words

if TYPE_CHECKING:
    from collector.store.session import Session

GapKind = Literal["served", "latency", "progress", "energy", "traffic"]
_NOUNS: dict[GapKind, str] = {
    "served": "requests and tokens of services",
    "latency": "latencies of services",
    "progress": "what runs say of their work",
    "energy": "energy",
    "traffic": "traffic",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """Hours of a period without one kind of amounts, the last of which ends at `until` (microseconds UTC).

    They were never kept, or no pass has booked them yet (`is_waiting`).
    """

    kind: GapKind
    hours: int
    until: int
    is_waiting: bool

    def words(self, timezone: str) -> str:
        """Return the sentence that stands beside the figures."""
        noun, hours, until = _NOUNS[self.kind], counted(self.hours, "hour"), moment_words(self.until, timezone)
        if self.is_waiting:
            return f"Not booked yet: {noun}, of {hours} until {until}. The next analysis books them."
        return (
            f"Not kept: {noun}, of {hours} until {until}. Their samples had expired before a release that books them; "
            "no figure here has those hours."
        )


def gaps(session: "Session", period: Period, *kinds: GapKind) -> tuple[Gap, ...]:
    """Return what the hours of the ledger in a period lack of these kinds.

    Raises:
        StoreError: the store does not answer.
    """
    selects = [
        f"SELECT '{kind}', count(*), max(l.hour) + {HOUR_US}, a.hour IS NULL FROM ledger_hours l "
        f"LEFT JOIN amount_hours a USING (hour) WHERE l.hour >= $start AND l.hour < $end AND a.{kind} IS NULL "
        "GROUP BY a.hour IS NULL"
        for kind in kinds
    ]
    asked: dict[str, object] = {"start": period.start, "end": period.end}
    return tuple(Gap(*row) for row in session.rows(f"{' UNION ALL '.join(selects)} ORDER BY ALL", asked))
