"""The answer: who goes where, what it costs, and how far from the best it can be at most."""

from dataclasses import dataclass
from typing import Literal

Solver = Literal["unchanged", "greedy", "recreate", "highs"]
BoundBy = Literal["highs", "each run alone"]


@dataclass(frozen=True, slots=True)
class Move:
    """Units of one run that go from pools to pools; a queued run that starts comes from nowhere."""

    run_id: str
    from_: tuple[tuple[str, int], ...]
    to: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Every run's units by pool (none where it waits), costs in the problem's currency, and what found it."""

    placed: dict[str, tuple[tuple[str, int], ...]]
    moves: tuple[Move, ...]
    cost_before: int  # of changing nothing
    cost: int  # of the plan, moving included
    moved_gpus: int
    solver: Solver
    iterations: int
    seed: int
    bound: int | None = None  # no plan costs less
    bound_by: BoundBy | None = None

    @property
    def gap_ratio(self) -> float | None:
        """The share of the cost that a better plan could save at most; None where no bound is known."""
        if self.bound is None:
            return None
        return 0.0 if self.cost <= self.bound else (self.cost - self.bound) / self.cost
