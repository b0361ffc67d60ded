"""Read what the runs of each name did and cost, hour by hour."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyzer.finops.unit_cost.unit import UNITS, Unit
from analyzer.queries.statements import statements

if TYPE_CHECKING:
    from collector.store.session import Session

Whose = tuple[str, str | None]  # name of runs, team


@dataclass(frozen=True, slots=True)
class Hour:
    """One hour of all runs of one name: GPU time, its cost (None: some has no price), and what they say they did."""

    start: int
    milliseconds: int
    micros: int | None
    did: Mapping[str, int | None]

    def units(self, unit: Unit) -> int | None:
        """Return how many of a unit were done; None where nobody said."""
        return self.did[unit.column]


def counted(session: "Session", start: int, end: int) -> dict[Whose, list[Hour]]:
    """Return the hours of each name that says what it does, oldest first."""
    (query,) = statements("finops/unit_cost/counted.sql")
    found: dict[Whose, list[Hour]] = {}
    for name, team, hour, milliseconds, micros, *did in session.rows(query, {"start": start, "end": end}):
        told = dict(zip((unit.column for unit in UNITS), did, strict=True))
        found.setdefault((name, team), []).append(Hour(hour, milliseconds, micros, told))
    return found
