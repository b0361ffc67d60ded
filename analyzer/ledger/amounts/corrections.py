"""What was learned in a period of work in hours that had closed: told in that period, since closed figures stay."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.period import Period
from analyzer.text.words import moment_words, plain

if TYPE_CHECKING:
    from collector.store.session import Session

_UNITS = ("requests", "tokens_in", "tokens_out", "tokens", "samples", "steps")


@dataclass(frozen=True, slots=True)
class Correction:
    """How much more of a unit the runs of one name did in closed hours, from the first to the last of them."""

    name: str
    unit: str
    amount: int
    first_hour: int
    last_hour: int

    def words(self, timezone: str) -> str:
        """Return the sentence that stands in the report of the period in which it was learned."""
        since = moment_words(self.first_hour, timezone)
        hours = since if self.first_hour == self.last_hour else f"{since} to {moment_words(self.last_hour, timezone)}"
        learned = f"{self.amount:+,} {self.unit} of {plain(self.name)}"
        return f"Learned of closed hours ({hours}): {learned}. What is closed keeps its figures."


def corrections(session: "Session", period: Period) -> tuple[Correction, ...]:
    """Return the corrections of work that were recorded in a period.

    Raises:
        StoreError: the store does not answer.
    """
    rows = session.rows(
        """
        SELECT coalesce(r.name, c.subject) AS name, c.unit, sum(c.amount)::BIGINT, min(c.hour), max(c.hour)
        FROM amount_corrections c LEFT JOIN runs r ON r.run_id = c.subject
        WHERE c.recorded_at >= $start AND c.recorded_at < $end AND list_contains($units, c.unit)
        GROUP BY ALL HAVING sum(c.amount) <> 0 ORDER BY ALL
        """,
        {"start": period.start, "end": period.end, "units": list(_UNITS)},
    )
    return tuple(Correction(*row) for row in rows)
