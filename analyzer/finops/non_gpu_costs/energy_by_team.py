"""Whose runs drew how much: the price and the carbon of an hour divided among its holders, so that the parts sum.

Each hour of a node group is rounded once, as a whole (energy.py); its holders get whole millionths and milligrams of
that by largest remainder. What teams are told then sums to what the fleet is told, to the millionth, for any window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from analyzer.finops.non_gpu_costs.energy import Drawn, factors
from analyzer.prices.non_gpu_rows import Energy, row_of
from analyzer.text.rounding import apportion

TeamHolder = tuple[str | None, bool]  # a team (None: unmapped), and whether anybody held the GPU


@dataclass(frozen=True, slots=True)
class TeamEnergy:
    """What the GPUs drew that one team held; without a team and not held, what free GPUs drew."""

    team: str | None
    held: bool
    millijoules: int
    cost_micros: int | None
    carbon_milligrams: int | None


def energy_by_team(drawn: Mapping[TeamHolder, Sequence[Drawn]], rows: Sequence[Energy]) -> tuple[TeamEnergy, ...]:
    """Return each holder's energy, price and carbon; None where an hour of it has no row that says them."""
    hours: dict[tuple[str | None, int], dict[TeamHolder, int]] = {}
    for holder, taken in drawn.items():
        for one in taken:
            parts = hours.setdefault((one.node_group, one.hour), {})
            parts[holder] = parts.get(holder, 0) + one.millijoules
    sums = {holder: TeamEnergy(*holder, 0, 0, 0) for holder in drawn}
    for (node_group, hour), parts in hours.items():
        row = row_of(rows, node_group, hour)
        cost, carbon = (None, None) if row is None else factors(row)[1:]
        costs, grams = _divided(parts, cost), _divided(parts, carbon)
        for holder, millijoules in parts.items():
            before = sums[holder]
            sums[holder] = replace(
                before,
                millijoules=before.millijoules + millijoules,
                cost_micros=_sum(before.cost_micros, costs.get(holder)),
                carbon_milligrams=_sum(before.carbon_milligrams, grams.get(holder)),
            )
    return tuple(sums.values())


def _divided(parts: Mapping[TeamHolder, int], factor: Fraction | None) -> dict[TeamHolder, int]:
    """Return what the holders of one hour get of it; nobody anything where the factor is not known."""
    if factor is None:
        return {}
    exact = [millijoules * factor.numerator for millijoules in parts.values()]
    whole = sum(exact) // factor.denominator
    return dict(zip(parts, apportion(whole, exact, factor.denominator), strict=True))


def _sum(before: int | None, more: int | None) -> int | None:
    return None if before is None or more is None else before + more
