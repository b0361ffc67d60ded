"""The answer: who goes where, and what it costs."""

from dataclasses import dataclass
from typing import Literal

Solver = Literal["unchanged", "greedy", "recreate"]


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
