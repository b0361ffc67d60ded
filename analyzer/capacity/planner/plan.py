"""The answer: where and when each task runs, what moves between them, and what keeps it from being earlier.

Seconds count from the problem's start, as there.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from analyzer.capacity.planner.problem import Amount, Medium, Problem

Solver = Literal["olb", "heft", "random_heft", "cp_sat", "said"]  # said: by a person or a language model, not by us
SOLVERS: tuple[Solver, ...] = ("olb", "heft", "random_heft", "cp_sat")


@dataclass(frozen=True, slots=True)
class Placement:
    """One task on one node, from start to end; a gang also on the nodes `beside` it, with `gpus` of all together.

    `latest_start_seconds` is when it could start at the latest, on its node, with everything still done by the
    deadline (without one: by the plan's own end); None where nobody has looked.
    """

    task: str
    node: str
    start_seconds: int
    end_seconds: int
    latest_start_seconds: int | None = None
    beside: tuple[str, ...] = ()
    gpus: Amount | None = None  # None: it has one size, and nobody has counted

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of its nodes."""
        return (self.node, *self.beside)

    @property
    def slack_seconds(self) -> int | None:
        """How much later it could start; None where nobody has looked."""
        return None if self.latest_start_seconds is None else self.latest_start_seconds - self.start_seconds


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes on their way from one task to another. It starts when the task before ends; the task after may wait on."""

    before: str
    after: str
    from_node: str
    to_node: str
    bytes: int
    start_seconds: int
    end_seconds: int
    medium: Medium


@dataclass(frozen=True, slots=True)
class Binding:
    """What keeps every plan from being shorter than `seconds`.

    `path`: the tasks in `tasks`, one after the other, with the transfers that no placement avoids. `resource`: all the
    work in `tasks` on what the nodes in `nodes` have of `resource`. `rounds`: at most `turns` of `tasks` run at a time
    on `nodes`, one round after the other. `search`: CP-SAT has ruled out every plan that is shorter than `seconds`, and
    no single reason says why.
    """

    kind: Literal["path", "resource", "rounds", "search"]
    seconds: int
    tasks: tuple[str, ...] = ()
    resource: str | None = None  # one of problem.RESOURCES
    nodes: tuple[str, ...] = ()
    turns: int | None = None


@dataclass(frozen=True)
class Plan:
    """All tasks placed. `bound` says how short any plan can be at most, and why; None where nobody has looked.

    `critical` is the chain of tasks that makes this plan as long as it is: each starts when the one before it, its
    transfer, or the room that it left, lets it. `cost_micros` is None where a price is not known.
    """

    solver: Solver
    placements: tuple[Placement, ...]  # by start, then name
    transfers: tuple[Transfer, ...]
    bound: Binding | None = None
    critical: tuple[str, ...] = ()
    cost_micros: int | None = None

    @property
    def makespan_seconds(self) -> int:
        """When the last task ends."""
        return max(each.end_seconds for each in self.placements)

    @property
    def lower_bound_seconds(self) -> int | None:
        """What no plan can be shorter than."""
        return None if self.bound is None else self.bound.seconds

    @property
    def is_optimal(self) -> bool:
        """Whether it is known that no plan is shorter."""
        return self.bound is not None and self.bound.seconds >= self.makespan_seconds

    @cached_property
    def by_task(self) -> dict[str, Placement]:
        """Placements by the task's name."""
        return {each.task: each for each in self.placements}


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
