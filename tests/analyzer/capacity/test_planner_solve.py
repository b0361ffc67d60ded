"""What is answered to "can it be done by then?": whatever the solvers find, and with the least change that keeps it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.units import GB
from analyzer.capacity.planner.instance import Instance, lower_bound
from analyzer.capacity.planner.plan import SOLVERS, Plan, Solver
from analyzer.capacity.planner.problem import Duration, Input, Node, Planned, Problem, Task
from analyzer.capacity.planner.schedule import latest_starts, length, plan_of
from analyzer.capacity.planner.solve import heft, olb, random_heft, solve
from analyzer.capacity.planner.validator import validate
from bench.plans.brute import makespan, shortest
from bench.plans.problems import TINY, Size, generated
from bench.plans.proposed import proposal_of
from tests.waiting import PATIENCE_SECONDS

HOUR = 3600
HEURISTICS: tuple[Solver, ...] = ("olb", "heft", "random_heft")
BOTH = pytest.mark.parametrize("solvers", [SOLVERS, HEURISTICS], ids=["with CP-SAT", "without"])


def node(name: str, **about: object) -> Node:
    """Return a node of four cores."""
    return replace(Node(name, 4, 64 * GB), **about)  # type: ignore[arg-type]


def task(name: str, hours: float, cpus: int = 4, **about: object) -> Task:
    """Return a task that fills such a node."""
    return replace(Task(name, cpus, GB, Duration.of(round(hours * HOUR))), **about)  # type: ignore[arg-type]


def nodes_of(plan: Plan) -> dict[str, str]:
    """Return where each task runs."""
    return {each.task: each.node for each in plan.placements}


@BOTH
def test_a_plan_that_keeps_the_deadline_moves_as_little_as_can_be(solvers: tuple[Solver, ...]) -> None:
    """Three tasks of 1 h are planned on one node: by 2 h one has to move, and two hours are no reason to move two."""
    tasks = tuple(task(name, 1, planned=Planned("n1", 0)) for name in "abc")
    problem = Problem(tasks, (node("n1"), node("n2"), node("n3")), deadline_seconds=2 * HOUR)
    answer = solve(problem, PATIENCE_SECONDS, solvers=solvers)
    assert answer.verdict == "on_time"
    moved = [each for each in answer.changes if each.to_node is not None]
    assert len(moved) == 1
    assert answer.plan.makespan_seconds == 2 * HOUR
    assert sum(each.delay_seconds for each in answer.changes) == HOUR


@BOTH
def test_nothing_moves_where_what_was_planned_keeps_the_deadline(solvers: tuple[Solver, ...]) -> None:
    """A shorter plan is not asked for by who asks for Friday."""
    tasks = tuple(task(name, 1, planned=Planned("n1")) for name in "abc")
    problem = Problem(tasks, (node("n1"), node("n2")), deadline_seconds=3 * HOUR)
    answer = solve(problem, PATIENCE_SECONDS, solvers=solvers)
    assert set(nodes_of(answer.plan).values()) == {"n1"}
    assert answer.changes == ()


def test_of_plans_that_keep_the_deadline_the_cheapest_is_taken() -> None:
    """The dear node is twice as dear and would be done sooner, and two hours are enough."""
    cheap, dear = node("cheap", price_micros_per_hour=1_000_000), node("dear", price_micros_per_hour=2_000_000)
    answer = solve(Problem((task("a", 1), task("b", 1)), (dear, cheap), deadline_seconds=2 * HOUR), PATIENCE_SECONDS)
    assert set(nodes_of(answer.plan).values()) == {"cheap"}
    assert answer.plan.cost_micros == 2_000_000


@pytest.mark.parametrize(("gpus", "hours"), [(1, 1), (2, 2), (0.25, 1), (0, 1)])
def test_where_nobody_plans_a_node_of_eight_gpus_still_runs_eight_tasks_at_once(gpus: float, hours: int) -> None:
    """A gain of 7 h over one task at a time is none: any scheduler gives each task its own GPUs."""
    tasks = tuple(task(name, 1, cpus=1, gpus=gpus) for name in "abcdefgh")
    problem = Problem(tasks, (node("n1", cpus=64, gpus=8),))
    assert length(Instance(problem), olb(Instance(problem))) == (0, hours * HOUR)


def test_a_move_says_what_its_transfers_save() -> None:
    """20 GB over network storage take 30 min, and 2 s where the data is."""
    tasks = (task("make", 1, node="a"), task("use", 1, inputs=(Input("make", 20 * GB),), planned=Planned("b")))
    problem = Problem(tasks, (node("a", rack="r"), node("b", rack="r")), deadline_seconds=2 * HOUR + 60)
    stored = replace(problem, network=replace(problem.network, path="storage"))
    change = solve(stored, PATIENCE_SECONDS).changes[0]
    assert (change.task, change.from_node, change.to_node, change.saved_seconds) == ("use", "b", "a", 1798)
    assert change.slack_seconds == 58
    assert solve(problem, PATIENCE_SECONDS).changes == ()


def test_too_much_work_for_the_nodes_is_impossible_and_the_resource_is_named() -> None:
    """No path is long, and the cores are not there."""
    answer = solve(
        Problem(tuple(task(name, 1) for name in "abc"), (node("n1"),), deadline_seconds=2 * HOUR), PATIENCE_SECONDS
    )
    assert answer.verdict == "impossible"
    assert answer.plan.bound is not None
    assert (answer.plan.bound.kind, answer.plan.bound.resource, answer.plan.bound.seconds) == (
        "resource",
        "cpus",
        3 * HOUR,
    )


def test_what_only_a_search_can_prove_is_proven_impossible() -> None:
    """One task of three cores and three of two on two nodes of four: by work 1.2 h would do, by shape it is 2 h."""
    tasks = tuple(task(name, 1, cpus) for name, cpus in zip("abcd", (3, 2, 2, 2), strict=True))
    problem = Problem(tasks, (node("n1"), node("n2")), deadline_seconds=round(1.5 * HOUR))
    assert solve(problem, PATIENCE_SECONDS).verdict == "impossible"
    without = solve(problem, seconds=0.2, solvers=HEURISTICS)
    assert (without.verdict, without.earliest_seconds) == ("not_found", round(1.125 * HOUR))


@BOTH
def test_a_tasks_own_deadline_goes_before_a_short_plan(solvers: tuple[Solver, ...]) -> None:
    """HEFT would begin with the long one."""
    tasks = (task("long", 5), task("urgent", 1, deadline_seconds=HOUR))
    answer = solve(Problem(tasks, (node("n1"),)), seconds=PATIENCE_SECONDS, solvers=solvers)
    assert answer.verdict == "on_time"
    assert answer.plan.by_task["urgent"].end_seconds == HOUR


def test_tasks_own_deadlines_that_exclude_each_other_are_impossible() -> None:
    """One core for two hours of work within one hour."""
    tasks = tuple(task(name, 1, deadline_seconds=HOUR) for name in "ab")
    assert solve(Problem(tasks, (node("n1"),)), PATIENCE_SECONDS).verdict == "impossible"


def test_what_is_proven_of_plans_that_keep_tasks_deadlines_is_no_bound_of_all_plans() -> None:
    """Two cores for an hour must wait for the urgent core: without that deadline all is done an hour earlier."""
    tasks = (
        task("pair", 1, cpus=4),
        task("urgent", 1, cpus=1, deadline_seconds=HOUR),
        task("after", 1, cpus=3, inputs=(Input("pair"),)),
    )
    answer = solve(Problem(tasks, (node("n1"),)), PATIENCE_SECONDS)
    assert answer.verdict == "on_time"
    assert (answer.plan.makespan_seconds, answer.earliest_seconds) == (3 * HOUR, 2 * HOUR)


@given(st.integers(0, 10**6))
def test_all_tasks_can_start_as_late_as_is_said_at_once(seed: int) -> None:
    """Slack that two tasks each have alone would be promised twice. It is never negative."""
    problem = replace(generated(seed, Size(tasks_max=15, nodes_max=4)), deadline_seconds=None)
    instance = Instance(problem)
    schedule = heft(instance)
    latest = latest_starts(instance, schedule, schedule.makespan(instance))
    assert all(late >= start for late, start in zip(latest, schedule.starts, strict=True))
    verdict = validate(problem, proposal_of(plan_of(instance, replace(schedule, starts=tuple(latest)), "said")))
    assert {each.rule for each in verdict.broken} <= {"deadline"}  # a task's own, which HEFT may have missed


@given(st.integers(0, 10**6))
def test_randomised_heft_keeps_the_rules_and_is_never_worse_and_always_the_same(seed: int) -> None:
    """It is a draw, and still an answer that can be repeated."""
    problem = generated(seed, Size(tasks_max=12, nodes_max=4))
    instance = Instance(problem)
    first = heft(instance)
    found = random_heft(instance, first, 30, seed)
    assert found == random_heft(instance, first, 30, seed)
    has_own = any(each.deadline_seconds is not None for each in problem.tasks)
    assert has_own or found.makespan(instance) <= first.makespan(instance)
    broken = validate(problem, proposal_of(plan_of(instance, found, "random_heft"))).broken
    assert {each.rule for each in broken} <= {"deadline"}


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_what_cp_sat_proves_is_what_trying_everything_finds(seed: int) -> None:
    """Of problems so small that all plans can be tried; the heuristics are left out, so that it has to look."""
    problem = generated(seed, TINY)
    tasks = tuple(replace(each, deadline_seconds=None) for each in problem.tasks)
    problem = replace(problem, tasks=tasks, deadline_seconds=None)
    answer = solve(problem, PATIENCE_SECONDS, solvers=("olb", "cp_sat"))
    assert answer.plan.is_optimal
    assert answer.plan.makespan_seconds == makespan(shortest(problem))
    assert lower_bound(Instance(problem)).seconds <= answer.plan.makespan_seconds
    assert validate(problem, proposal_of(answer.plan)).is_valid


def equal(count: int, minutes: int = 20, deadline_seconds: int | None = None) -> Problem:
    """Return so many equal tasks of one GPU each, on two nodes of four."""
    tasks = tuple(Task(f"s{number}", 4, 32 * GB, Duration.of(minutes * 60), gpus=1) for number in range(count))
    nodes = tuple(Node(name, 64, 1000 * GB, gpus=4, hbm_bytes=80 * GB) for name in ("n0", "n1"))
    return Problem(tasks, nodes, deadline_seconds=deadline_seconds)


@pytest.mark.parametrize(("count", "rounds"), [(8, 1), (9, 2), (16, 2), (17, 3), (500, 63)])
def test_equal_tasks_take_whole_rounds(count: int, rounds: int) -> None:
    """The work of 17 on 8 GPUs is 42 min, and none of them can be cut: no plan is shorter than an hour."""
    answer = solve(equal(count), 5, solvers=HEURISTICS)
    assert answer.earliest_seconds == answer.plan.makespan_seconds == rounds * 1200
    assert answer.plan.is_optimal


def test_a_deadline_within_the_last_round_is_proven_impossible() -> None:
    """Without a search: the bound says it."""
    answer = solve(equal(17, deadline_seconds=3000), 5, solvers=HEURISTICS)
    assert answer.verdict == "impossible"
    assert answer.plan.bound is not None
    assert (answer.plan.bound.kind, answer.plan.bound.turns, len(answer.plan.bound.tasks)) == ("rounds", 8, 17)
