"""What the search promises: never invalid, never worse than today nor better than the best, and repeatable."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.recommendations.fleet_plan.problem import Limits, Needs, Plan, Pool, Problem, ProblemError, Run, UnitKind
from analyzer.recommendations.fleet_plan.search import greedy, recreate, restored
from analyzer.recommendations.fleet_plan.solve import Budget, joined_state, parts_of, solve
from analyzer.recommendations.fleet_plan.state import State, UnitsByPool, index_of, plan_of
from analyzer.recommendations.fleet_plan.validate import broken
from bench.placement_fleet import fleet, tiny

SEEDS = st.integers(0, 10**9)
H100 = Needs(frozenset({"H100"}), 8)


def _fillings(units: int, most: list[int]) -> list[tuple[int, ...]]:
    return [way for way in product(*(range(min(units, n) + 1) for n in most)) if sum(way) == units]


def _cheapest(problem: Problem) -> int:
    """Return the optimum by trying every plan there is and letting the validator strike out what is not allowed."""
    index = index_of(problem)
    sizes = [pool.units for pool in problem.pools]
    ways: list[list[UnitsByPool]] = []
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


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_plan_is_valid_and_never_worse_than_today(seed: int) -> None:
    """A plan that breaks a taint or costs more than leaving things alone would be worse than none."""
    problem = tiny(seed)
    plan = solve(problem, Budget(iterations=40, seed=seed))
    assert broken(problem, plan) == []
    assert plan.cost <= plan.cost_before


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_no_plan_is_below_the_optimum(seed: int) -> None:
    """Every plan of a tiny problem can be tried: what is found cheaper than all of them is no plan."""
    problem = tiny(seed, racks_max=2, runs_max=3)
    assert solve(problem, Budget(iterations=100, seed=seed)).cost >= _cheapest(problem)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_parts_have_nothing_in_common_and_lose_nothing(seed: int) -> None:
    """Their plans are put together without another look: a pool in two parts would be given twice."""
    problem = tiny(seed, racks_max=6, runs_max=12)
    index = index_of(Problem(problem.pools, problem.runs))
    parts = parts_of(index)
    runs = [run for part in parts for run in part.runs]
    pools = [pool for part in parts for pool in part.pools]
    assert sorted(runs) == list(range(len(problem.runs)))
    assert len(pools) == len(set(pools))
    states = [State.unchanged(part.index) for part in parts]
    assert joined_state(index, parts, states).cost == State.unchanged(index).cost == sum(s.cost for s in states)


def test_a_limit_is_spent_on_what_saves_most_for_each_gpu() -> None:
    """One move of 8 GPUs saves 1,000, one of 16 saves 1,500, and 16 may move: by hand, the first and its like go."""
    pools = tuple(Pool(name, name, UnitKind("H100", 8), 4) for name in "abcdef")
    runs = (
        Run("large", 4, H100, (("a", 2), ("b", 2)), span_cost=1_500),
        Run("one", 2, H100, (("c", 1), ("d", 1)), span_cost=1_000),
        Run("two", 2, H100, (("e", 1), ("f", 1)), span_cost=1_000),
    )
    plan = solve(Problem(pools, runs, Limits(16)), Budget(iterations=200))
    assert {move.run_id for move in plan.moves} == {"one", "two"}
    assert plan.cost == 1_500


@given(SEEDS, st.integers(0, 9), st.none() | st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_where_one_run_may_move_a_search_finds_no_more(seed: int, chosen: int, limit: int | None) -> None:
    """Nothing is searched then: whoever waits for a plan waits for nothing that could change it."""
    problem = tiny(seed)
    one = problem.runs[chosen % len(problem.runs)].id
    still = frozenset(run.id for run in problem.runs if run.id != one)
    problem = Problem(problem.pools, problem.runs, Limits(limit, still))
    found = solve(problem, Budget(iterations=60, seed=seed))
    assert found.iterations == 0
    searched, _ = recreate(greedy(index_of(problem)), seed, 60, lambda: False)
    assert searched.cost == found.cost


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
    assert (plan.cost_before, plan.cost) == (100, 10)
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
    pools = tuple(Pool(name, name, UnitKind("H100", 8), 2) for name in "ab")
    run = Run("train", 2, H100, (("a", 1), ("b", 1)), span_cost=span_cost, move_cost=10)
    return Problem(pools, (run,))


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (Run("x", 3, H100, (("a", 3),)), "3 units of a are held, and it has 2"),
        (Run("x", 2, H100, (("a", 1),)), "a gang of 2 units and holds a part"),
        (Run("x", 1, H100, (("c", 1),)), "unknown or repeated pools: c"),
        (Run("x", 1, Needs(frozenset({"H100"}), 4), (("a", 1),)), "another size"),
        (Run("x", 1, H100, (("a", 1),), move_cost=-1), "a cost that is not an integer of 0 or more"),
    ],
)
def test_a_problem_that_contradicts_itself_is_refused(run: Run, says: str) -> None:
    """Doing nothing must be a valid answer, or every other answer is compared with nonsense."""
    with pytest.raises(ProblemError, match=says):
        Problem(_two_racks(1).pools, (run,))
