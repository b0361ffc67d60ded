"""Ask CP-SAT for the shortest plan, and for the plan that keeps a deadline with the least change; where it is small.

The process is started before the problem is known, so that its libraries are loaded when heuristics have their hint.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from analyzer.capacity.planner.cp_model import CpModel, Terms
from analyzer.capacity.planner.finished import task_cost_micros
from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.lateness import late_seconds
from analyzer.capacity.planner.schedule import Schedule
from analyzer.capacity.planner.solver_process import SolverProcess

_LITERALS_MOST = 20_000  # tasks times the nodes that each fits: beyond, its presolve alone takes longer than the search
_WORKERS = 6  # with 4 some searches that prove are left out; on fewer cores they take turns
_Objective = list[list[int]]


def has_cp_sat() -> bool:
    """Whether ortools is installed; it is not imported."""
    return find_spec("ortools") is not None


def is_small(instance: Instance) -> bool:
    """Whether a model of it is worth a try."""
    return sum(map(len, instance.choices)) <= _LITERALS_MOST


@dataclass(frozen=True, slots=True)
class Proof:
    """What CP-SAT said of one aim.

    `bound` is what no plan is shorter than (of an aim of makespan; None: it got to none). `is_proven`: the schedule is
    the best there is; `is_infeasible`: there is none.
    """

    schedule: Schedule | None
    bound: int | None
    is_proven: bool
    is_infeasible: bool


_NOTHING = Proof(None, None, is_proven=False, is_infeasible=False)


@dataclass(frozen=True, slots=True)
class Proofs:
    """The shortest plan, and the one that keeps the deadline and changes least; of each what was found."""

    shortest: Proof = _NOTHING
    kept: Proof = _NOTHING


class Prover:
    """One problem for CP-SAT. Made early, asked once, stopped always."""

    def __init__(self) -> None:
        self._process = SolverProcess("analyzer.capacity.planner.cp_sat")
        self._model: CpModel | None = None

    def ask(self, instance: Instance, hint: Schedule, seconds: float, wants_kept: bool) -> None:
        """Hand over the problem with the best schedule so far. `wants_kept`: it has a deadline, and it may be kept."""
        deadline = instance.problem.deadline_seconds
        is_late = late_seconds(instance, hint) > 0
        ends = hint.makespan(instance)
        horizon = max(ends, deadline or 0) + (sum(instance.most_seconds) + _farthest(instance) if is_late else 0)
        model = self._model = CpModel(instance, hint, horizon)
        makespan: _Objective = [[model.makespan], [1]]
        late = _late(model)
        limit = [] if is_late else [[*makespan, ends]]
        aims = [{"limits": limit, "objectives": [*late, makespan]}]
        if wants_kept and deadline is not None:
            limits = [[*makespan, deadline], *([*terms, 0] for terms in late)]
            aims.append({"limits": limits, "objectives": [*_moves(model), *_delay(model), *_cost(model), makespan]})
        self._process.ask(
            {
                "model": "\n".join(model.text.lines),
                "hint": model.text.hint,
                "aims": aims,
                "seconds": seconds,
                "workers": _WORKERS,
            },
            seconds,
        )

    def is_done(self, wait_seconds: float = 0.0) -> bool:
        """Whether the answer is there, at once or after so long at most."""
        return self._process.is_done(wait_seconds)

    def result(self) -> Proofs:
        """Wait for the answer, until its time is over; what dies or is killed has found what it told before."""
        told = self._process.answer()
        if told is None or self._model is None:
            return Proofs()
        return Proofs(*(self._proof(aim) for aim in told["aims"]))

    def stop(self) -> None:
        """End the process, if it is still there."""
        self._process.stop()

    def _proof(self, aim: dict[str, Any]) -> Proof:
        if self._model is None:
            raise RuntimeError("BUG: CP-SAT was not asked")
        values = aim["values"]
        schedule = None if values is None else self._model.schedule(values)
        return Proof(schedule, aim["bound"], aim["is_proven"], aim["is_infeasible"])


def _farthest(instance: Instance) -> int:
    """Return what all transfers take, each over its slowest medium."""
    return sum(max(delays) for waits in instance.before for _, delays in waits)


def _late(model: CpModel) -> list[_Objective]:
    """Return how late tasks are by their own deadlines, where any has one."""
    late: Terms = {}
    for at, task in enumerate(model.instance.problem.tasks):
        if task.deadline_seconds is not None:
            in_time = task.deadline_seconds - model.instance.least_seconds[at]
            late[_over(model, model.starts[at], in_time, model.longer(at))] = 1
    return _objective(late)


def _moves(model: CpModel) -> list[_Objective]:
    """Return how many tasks run elsewhere than planned, less a constant."""
    stays: Terms = {}
    number = {node.name: at for at, node in enumerate(model.instance.problem.nodes)}
    for task, there in zip(model.instance.problem.tasks, model.runs_on, strict=True):
        literal = there.get(number[task.planned.node]) if task.planned.node is not None else None
        if literal is not None:
            stays[literal] = -1
    return _objective(stays)


def _delay(model: CpModel) -> list[_Objective]:
    """Return by how much tasks start later than planned, all together."""
    planned = [task.planned.start_seconds for task in model.instance.problem.tasks]
    over = {
        _over(model, start, at): 1 for start, at in zip(model.starts, planned, strict=True) if at is not None
    }  # fmt: skip
    return _objective(over)


def _cost(model: CpModel) -> list[_Objective]:
    """Return what the plan costs, where every node that a task may take has a price."""
    costs: Terms = {}
    for task, there in enumerate(model.runs_on):
        for node, literal in there.items():
            cost = task_cost_micros(model.instance, task, node)
            if cost is None:
                return []
            costs[literal] = cost
    return _objective(costs)


def _over(model: CpModel, start: int, from_seconds: int, longer: Terms | None = None) -> int:
    """Return a variable that is at least how much a start is after a moment, and at least 0.

    With `longer` (of CpModel) it is at least how much that is with what the task takes longer where it runs.
    """
    more = longer or {}
    hint = model.text.hint[start] - from_seconds - sum(less * model.text.hint[at] for at, less in more.items())
    over = model.text.variable(0, model.horizon + abs(from_seconds), hint)
    model.text.at_least({over: 1, start: -1, **more}, -from_seconds)
    return over


def _objective(terms: Terms) -> list[_Objective]:
    return [[list(terms), list(terms.values())]] if terms else []
