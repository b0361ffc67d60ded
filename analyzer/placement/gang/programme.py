"""An integer programme in plain lists, and what its columns say of a plan."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from analyzer.placement.gang.index import Index, Place

INFINITY = 1e30  # HiGHS takes 1e20 and more as none


@dataclass
class Programme:
    """Minimise cost over integer columns, in rows of coefficients. `origin` says what a column is of a plan."""

    cost: list[int] = field(default_factory=list)
    upper: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)  # by column: its value in today's or the given plan
    rows: list[tuple[dict[int, int], float, float]] = field(default_factory=list)
    constant: int = 0
    origin: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # column: run, pool, units each

    def column(self, cost: int, upper: int, start: int = 0) -> int:
        """Add an integer column from 0 to `upper`; return its number."""
        self.cost.append(cost)
        self.upper.append(upper)
        self.start.append(start)
        return len(self.cost) - 1

    def row(self, coefficients: dict[int, int], lower: float, upper: float) -> None:
        """Add lower <= sum <= upper."""
        self.rows.append((coefficients, lower, upper))


def places_of(index: Index, programme: Programme, values: Iterable[float]) -> list[Place]:
    """Return by run where the full programme's solution puts it."""
    places: list[Place] = [dict(held) if fixed else {} for held, fixed in zip(index.held, index.fixed, strict=True)]
    for column, value in enumerate(values):
        if column in programme.origin and (count := round(value)):
            run, pool, step = programme.origin[column]
            places[run][pool] = places[run].get(pool, 0) + count * step
    return places
