"""What a plan says to who asked "can it be done by then?": the verdict, what changes, and how the solvers compare."""

from dataclasses import dataclass
from typing import Literal

from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.problem import Problem

# no_deadline: nobody asked; on_time: the plan keeps it; impossible: no plan can (proven);
# not_found: the plan misses it, and it is not proven that all do.
Verdict = Literal["no_deadline", "on_time", "impossible", "not_found"]


@dataclass(frozen=True, slots=True)
class Change:
    """One task that runs elsewhere or later than was planned.

    `saved_seconds` is how much of its transfers' time the move saves; `slack_seconds` what is left to delay after it.
    """

    task: str
    from_node: str | None  # None: its node does not change, or nobody had planned one
    to_node: str | None
    delay_seconds: int  # 0: no later than planned
    saved_seconds: int
    slack_seconds: int | None


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """The plan to follow, the others for comparison (each solver's best, with its time), and the verdict.

    `earliest_seconds` is what no plan can end before, proven; `plan` ends then or later.
    """

    problem: Problem
    plan: Plan
    compared: tuple[Plan, ...]  # one of each solver that ran, in the order of SOLVERS
    verdict: Verdict
    earliest_seconds: int
    changes: tuple[Change, ...]  # moves first, then delays
