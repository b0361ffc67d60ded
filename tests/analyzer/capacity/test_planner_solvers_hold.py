"""What solvers make is checked by who shares no code with them, and by trying everything where that is little."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.planner.instance import Instance, lower_bound
from analyzer.capacity.planner.plan import Plan, Solver
from analyzer.capacity.planner.problem import Path, Problem
from analyzer.capacity.planner.schedule import Schedule, plan_of
from analyzer.capacity.planner.schedule import length as length_of
from analyzer.capacity.planner.solve import heft, olb, solve
from analyzer.capacity.planner.validator import validate
from bench.plans.brute import length, makespan, shortest, tries
from bench.plans.problems import TINY, Size, generated, of_everything, of_kinds
from bench.plans.proposed import proposal_of
from tests.analyzer.capacity.planner_example import four_tasks

HOURS_9, HOURS_9_15 = 32_400, 33_300
SOLVERS: list[tuple[Solver, Callable[[Instance], Schedule]]] = [("olb", olb), ("heft", heft)]


@pytest.mark.parametrize(
    ("output_gb", "path", "avoids", "seconds"),
    [
        (10, "direct", True, HOURS_9 + 11),
        (10, "direct", False, HOURS_9 + 10),
        (10, "storage", True, HOURS_9_15 + 1),
        (20, "direct", True, HOURS_9 + 12),
        (20, "storage", True, HOURS_9_15 + 2),
    ],
)
def test_all_256_assignments_in_all_orders_give_the_published_optimum(
    output_gb: int, path: Path, avoids: bool, seconds: int
) -> None:
    """The table of the example is then true by enumeration, whatever our solvers say."""
    problem = four_tasks(output_gb, path, avoids)
    assert tries(problem) == 256
    assert makespan(shortest(problem)) == seconds


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("made", [generated, of_kinds, of_everything])
@given(seed=st.integers(0, 10**6))
def test_every_plan_is_valid_and_its_figures_are_right(
    solver: tuple[Solver, Callable[[Instance], Schedule]], made: Callable[[int, Size], Problem], seed: int
) -> None:
    """Of problems with every kind of constraint; a deadline may be one that no plan keeps."""
    name, solved = solver
    problem = made(seed, Size(tasks_max=20, nodes_max=6))
    instance = Instance(problem)
    plan = plan_of(instance, solved(instance), name)
    verdict = validate(problem, proposal_of(plan))
    assert {each.rule for each in verdict.broken} <= {"deadline"}
    assert verdict.corrected == ()
    assert verdict.plan is not None
    assert set(verdict.plan.transfers) == set(plan.transfers)
    assert verdict.plan.cost_micros == plan.cost_micros


@pytest.mark.parametrize("made", [generated, of_kinds, of_everything])
@given(seed=st.integers(0, 10**6))
def test_no_heuristic_beats_trying_everything_and_no_bound_is_above_it(
    made: Callable[[int, Size], Problem], seed: int
) -> None:
    """A plan that is better than the best breaks a rule; a bound that is higher proves what is false.

    Both look for plans that miss the tasks' own deadlines least, and of these for the shortest.
    """
    problem = made(seed, TINY)
    instance = Instance(problem)
    best = length(shortest(problem))
    assert lower_bound(instance).seconds <= best[1]
    assert best <= min(length_of(instance, olb(instance)), length_of(instance, heft(instance)))


@pytest.mark.parametrize("made", [of_kinds, of_everything])
@pytest.mark.parametrize("seed", range(20))
def test_cp_sat_finds_what_trying_everything_finds(made: Callable[[int, Size], Problem], seed: int) -> None:
    """On several kinds, on several nodes at once, while some are away; what it proves is true."""
    problem = made(seed, TINY)
    answer = solve(problem, 5, solvers=("heft", "cp_sat"))
    best = length(shortest(problem))
    found = min(_length(problem, plan) for plan in answer.compared)
    assert found == best
    has_own = any(task.deadline_seconds is not None for task in problem.tasks)
    assert answer.earliest_seconds <= best[1] if has_own else answer.earliest_seconds == best[1]
    assert (answer.verdict == "impossible") == (not _may_be_kept(problem, best))


def _length(problem: Problem, plan: Plan) -> tuple[int, int]:
    own = {task.name: task.deadline_seconds for task in problem.tasks}
    ends = [(each.end_seconds, own[each.task]) for each in plan.placements]
    return sum(max(0, end - due) for end, due in ends if due is not None), plan.makespan_seconds


def _may_be_kept(problem: Problem, best: tuple[int, int]) -> bool:
    """Say whether a plan keeps every deadline; without own ones that is the shortest."""
    return best[0] == 0 and (problem.deadline_seconds is None or best[1] <= problem.deadline_seconds)
