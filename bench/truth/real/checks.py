"""What is asked of real data: a name, what came out, the bar set before, and whether it was kept.

Two kinds stand apart: what was asked for when the analyzer was ordered (the published order of epochs, a stall that is
seen, starved told from fed, distributions within bands), and what we asked beyond that of the same figures. In both
most numbers are ours: the order named few.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One question. `found` is computed from the files alone; `bar` is in words, with its number."""

    name: str
    found: float | None
    bar: str
    kept: bool
    asked: bool = False  # when the analyzer was ordered, and not by us alone

    def line(self) -> str:
        """Return the check as one line for a terminal."""
        found = "nothing" if self.found is None else f"{self.found:g}"
        whose = "asked" if self.asked else "added"
        return f"{'kept' if self.kept else 'MISSED'} ({whose}): {self.name}: {found} (bar: {self.bar})"

    def as_json(self) -> dict[str, object]:
        """Return the check for the results' file."""
        return asdict(self)


def within(name: str, found: float | None, wanted: float, room: float, unit: str = "", *, asked: bool = False) -> Check:
    """Return the check that something lies at most `room` from what was published; unknown is missed."""
    kept = found is not None and abs(found - wanted) <= room
    return Check(name, _rounded(found), f"{wanted:g} ± {room:g}{unit}", kept, asked)


def at_least(name: str, found: float | None, least: float, unit: str = "", *, asked: bool = False) -> Check:
    """Return the check that something reaches its bar; unknown is missed."""
    return Check(name, _rounded(found), f"at least {least:g}{unit}", found is not None and found >= least, asked)


def at_most(name: str, found: float | None, most: float, unit: str = "", *, asked: bool = False) -> Check:
    """Return the check that something does not pass its bar; unknown is missed."""
    return Check(name, _rounded(found), f"at most {most:g}{unit}", found is not None and found <= most, asked)


def missed(checks: Iterable[Check]) -> list[Check]:
    """Return those that were not kept."""
    return [check for check in checks if not check.kept]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
