"""What a change must keep, and whether it does: printed with every recommendation, so that nobody has to trust it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constraint:
    """One thing that was looked at. `holds` is None where it could not be known; `told` has the numbers.

    Such as Constraint("cores", True, "n14: 96 wanted, 128 there").
    """

    what: str
    holds: bool | None
    told: str
