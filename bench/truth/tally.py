"""What is counted of the runs of one cell: sums, so that cells and seeds can be added up in any order."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.truth.draw import Cell


@dataclass
class Tally:
    """Counts of runs, and milliseconds where the name says so."""

    runs: int = 0
    starved: int = 0  # truly
    booked_starved: int = 0
    both_starved: int = 0
    right_cause: int = 0  # of both
    communicating: int = 0  # truly, and not starved
    taken_for_input: int = 0  # of these
    avoidable: int = 0  # truly
    abstained: int = 0  # of these: most of the loss is booked unexplained
    booked_idle: int = 0
    rightly_idle: int = 0  # of these
    booked_idle_ms: int = 0
    rightly_idle_ms: int = 0
    truth_micros: int = 0  # avoidable, of all runs
    ledger_micros: int = 0
    held_ms: int = 0
    right_ms: int = 0  # of it: booked as labelled, in state and cause
    dollar_errors_permille: list[int] = field(default_factory=list)  # of runs with something avoidable
    findings: Counter[str] = field(default_factory=Counter)  # "high", "high right", "high right state", and so on
    causes: Counter[str] = field(default_factory=Counter)  # "cause>cause" in runs, of those that were found starved
    confusion: Counter[str] = field(default_factory=Counter)  # "state>state" in milliseconds, truth first

    def add(self, other: "Tally") -> None:
        """Add what another counted."""
        for name in self.__dataclass_fields__:
            mine, others = getattr(self, name), getattr(other, name)
            if isinstance(mine, Counter):
                mine.update(others)
            else:
                setattr(self, name, mine + others)


Key = tuple[str, float | None, int, int, bool, bool]  # a cell's kind, step, ranks, sampling, GPM, dirt; no seed


def key_of(cell: Cell) -> Key:
    """Return what a cell is counted under."""
    return cell.archetype, cell.step, cell.ranks, cell.every, cell.gpm, cell.dirty


def summed(tallies: Iterable[Tally]) -> Tally:
    """Return the sum."""
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total
