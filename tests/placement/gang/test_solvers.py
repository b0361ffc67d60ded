"""What the solvers promise: never invalid, never worse than today, repeatable, and the optimum where it is known."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.placement.gang.bound import each_alone, has_highs
from analyzer.placement.gang.errors import ProblemError
from analyzer.placement.gang.index import Place, index_of
from analyzer.placement.gang.plan import Plan
from analyzer.placement.gang.problem import Kind, Limits, Needs, Pool, Problem, Run
from analyzer.placement.gang.recreate import restored
from analyzer.placement.gang.solve import Budget, solve
from analyzer.placement.gang.state import plan_of
from analyzer.placement.gang.validate import broken
from bench.placement_fleet import fleet, tiny

SEEDS = st.integers(0, 10**9)
H100 = Needs(frozenset({"H100"}), 8)


def _fillings(units: int, most: list[int]) -> list[tuple[int, ...]]:
    return [way for way in product(*(range(min(units, n) + 1) for n in most)) if sum(way) == units]


def _cheapest(problem: Problem) -> int:
    """Return the optimum by trying every plan there is and letting the validator strike out what is not allowed."""
    index = index_of(problem)
    sizes = [pool.units for pool in problem.pools]
    ways: list[list[Place]] = []
    for run in problem.runs:
        fillings = _fillings(run.units, sizes)
        ways.append([{p: n for p, n in enumerate(way) if n} for way in fillings] + ([] if run.held else [{}]))
    before = restored(index, index.held).cost
    costs = []
    for places in product(*ways):
        used = [sum(place.get(p, 0) for place in places) for p in range(len(sizes))]
        if all(n <= size for n, size in zip(used, sizes, strict=True)):
            plan = plan_of(restored(index, list(places)), before, "greedy")
            if not broken(problem, plan):
                costs.append(plan.cost)
    return min(costs)


def _small(seed: int) -> Problem:
    return tiny(seed, racks_max=2, runs_max=3)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_plan_is_valid_and_never_worse_than_today(seed: int) -> None:
    """A plan that breaks a taint or costs more than leaving things alone would be worse than none."""
    problem = tiny(seed)
    plan = solve(problem, Budget(iterations=40, seed=seed))
    assert broken(problem, plan) == []
    assert plan.cost <= plan.cost_before
    assert plan.bound is not None
    assert plan.bound <= plan.cost


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_no_bound_is_above_the_optimum_and_no_plan_below_it(seed: int) -> None:
    """Every plan of a tiny problem can be tried: the bound must lie below the best, what is found not below."""
    problem = _small(seed)
    best = _cheapest(problem)
    assert each_alone(index_of(problem)) <= best
    assert solve(problem, Budget(iterations=100, seed=seed)).cost >= best


@pytest.mark.skipif(not has_highs(), reason="highspy is not installed (the extra placement)")
@given(SEEDS)
@settings(max_examples=12, deadline=None)
def test_highs_finds_the_optimum_that_trying_all_finds(seed: int) -> None:
    """The programme says what the validator says: the two were written apart, and their optima are one number."""
    problem = _small(seed)
    best = _cheapest(problem)
    plan = solve(problem, Budget(iterations=0, seed=seed, bound_seconds=20))
    assert broken(problem, plan) == []
    assert plan.cost == best
    assert plan.bound is not None
    assert plan.bound >= best - 1 - best // 500_000  # HiGHS's own tolerance


def test_the_same_seed_and_iterations_give_the_same_plan() -> None:
    """Who asks twice must be told the same, or nobody believes either; a clock that never ends it changes nothing."""
    problem = fleet(512, 3)
    assert _asked(problem, 7) == _asked(problem, 7)


def _asked(problem: Problem, seed: int) -> Plan:
    return solve(problem, Budget(iterations=200, seconds=600, seed=seed))


def test_a_clock_that_has_run_out_still_leaves_a_valid_plan() -> None:
    """The best so far is an answer; no answer is none."""
    problem = fleet(512, 3)
    plan = solve(problem, Budget(iterations=10**9, seconds=0, seed=1))
    assert plan.iterations == 0
    assert broken(problem, plan) == []
    assert plan.cost < plan.cost_before


def test_searching_on_finds_what_greedy_did_not() -> None:
    """Else the search would be time for nothing."""
    problem = fleet(2_048, 1)
    quick = solve(problem, Budget(iterations=0))
    assert quick.solver == "greedy"
    longer = solve(problem, Budget(iterations=600))
    assert longer.solver == "recreate"
    assert longer.cost < quick.cost


def test_a_run_in_two_racks_is_brought_together_where_that_pays() -> None:
    """The smallest case, by hand: one node moves for 10, one rack less saves 100."""
    plan = solve(_two_racks(span_cost=100), Budget(iterations=10))
    assert (plan.cost_before, plan.cost, plan.bound, plan.gap_ratio) == (100, 10, 10, 0.0)
    assert [(move.from_, move.to) for move in plan.moves] == [((("b", 1),), (("a", 1),))]


def test_a_move_that_costs_more_than_it_saves_is_not_made() -> None:
    """Churn is a cost that somebody else pays."""
    plan = solve(_two_racks(span_cost=9), Budget(iterations=10))
    assert (plan.solver, plan.moves, plan.cost) == ("unchanged", (), 9)


def test_a_run_in_its_cool_down_stays() -> None:
    """A rejection is remembered, whatever it would save."""
    problem = _two_racks(span_cost=100)
    still = Problem(problem.pools, problem.runs, Limits(still=frozenset({"train"})))
    assert solve(still, Budget(iterations=10)).moves == ()


def _two_racks(span_cost: int) -> Problem:
    pools = tuple(Pool(name, name, Kind("H100", 8), 2) for name in "ab")
    run = Run("train", 2, H100, (("a", 1), ("b", 1)), span_cost=span_cost, move_cost=10)
    return Problem(pools, (run,))


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (Run("x", 3, H100, (("a", 3),)), "3 units of a are held, and it has 2"),
        (Run("x", 2, H100, (("a", 1),)), "a gang of 2 units and holds a part"),
        (Run("x", 1, H100, (("c", 1),)), "unknown or repeated pools: c"),
        (Run("x", 1, Needs(frozenset({"H100"}), 4), (("a", 1),)), "another size"),
        (Run("x", 1, H100, (("a", 1),), move_cost=-1), "a cost that is no integer of 0 or more"),
    ],
)
def test_a_problem_that_contradicts_itself_is_refused(run: Run, says: str) -> None:
    """Doing nothing must be a valid answer, or every other answer is compared with nonsense."""
    with pytest.raises(ProblemError, match=says):
        Problem(_two_racks(1).pools, (run,))
