"""Every single change to a valid plan that breaks a rule is named, and none that does not.

Whether one does is told by looking at each second of each node, with code of neither the solvers nor the validator.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.nearest import nearest
from analyzer.capacity.planner.problem import Problem
from analyzer.capacity.planner.proposal import Placed, Proposal
from analyzer.capacity.planner.solve import heft
from analyzer.capacity.planner.validator import validate
from bench.plans.brute import Put, arrival, has_room, may_run
from bench.plans.problems import Size, generated

Change = Literal["another node", "earlier", "later", "dropped", "twice", "nodes swapped", "starts swapped", "unknown"]
CHANGES: tuple[Change, ...] = (
    "another node",
    "earlier",
    "later",
    "dropped",
    "twice",
    "nodes swapped",
    "starts swapped",
    "unknown",
)
FEW_SECONDS = Size(7, 3, (0, 1, 2, 3, 5, 8))
seeds = st.integers(0, 10**6)


def heft_places(problem: Problem) -> list[Placed]:
    """Return HEFT's plan, as if somebody had proposed it."""
    schedule = heft(Instance(problem))
    return [
        Placed(task.name, problem.nodes[node].name, start)
        for task, node, start in zip(problem.tasks, schedule.nodes, schedule.starts, strict=True)
    ]


def without_deadlines(problem: Problem) -> Problem:
    """Return the problem without any, so that each of its plans that fits is valid."""
    tasks = tuple(replace(task, deadline_seconds=None) for task in problem.tasks)
    return replace(problem, tasks=tasks, deadline_seconds=None)


def holds(problem: Problem, placed: Sequence[Placed]) -> bool:
    """Return whether the plan can be followed, second by second."""
    nodes = {node.name: node for node in problem.nodes}
    if sorted(each.task for each in placed) != sorted(task.name for task in problem.tasks):
        return False
    if not all(each.node in nodes for each in placed):
        return False
    put: dict[str, Put] = {}
    for each in placed:
        task = problem.task_by_name[each.task]
        put[each.task] = Put(task, nodes[each.node], each.start_seconds, each.start_seconds + task.seconds)
    running: dict[tuple[str, int], list[Put]] = {}
    for one in put.values():
        for second in range(one.start, one.end):
            running.setdefault((one.node.name, second), []).append(one)
    return all(_alone(problem, one, put) for one in put.values()) and all(
        has_room(puts, nodes[name]) for (name, _), puts in running.items()
    )


def _alone(problem: Problem, one: Put, put: dict[str, Put]) -> bool:
    return (
        may_run(one, one.node)
        and one.start >= max(0, one.task.earliest_start_seconds, one.node.available_from_seconds)
        and all(one.start >= arrival(problem, put[each.task], one.nodes, each.bytes) for each in one.task.inputs)
        and all(limit is None or one.end <= limit for limit in (one.task.deadline_seconds, problem.deadline_seconds))
    )


def changed(problem: Problem, placed: list[Placed], change: Change, random: Random) -> tuple[list[Placed], set[str]]:
    """Return the plan with one change, and the tasks that it is about."""
    found = list(placed)
    at, other = random.sample(range(len(placed)), 2)
    one, two = placed[at], placed[other]
    if change == "dropped":
        del found[at]
        return found, {one.task}
    if change == "twice":
        found.append(replace(one, start_seconds=one.start_seconds + random.choice((0, 9))))
    elif change == "another node":
        found[at] = replace(one, node=random.choice(problem.nodes).name)
    elif change == "unknown":
        found[at] = random.choice((replace(one, node="nowhere"), replace(one, task="nothing")))
        return found, {one.task}
    elif change == "nodes swapped":
        found[at], found[other] = replace(one, node=two.node), replace(two, node=one.node)
        return found, {one.task, two.task}
    elif change == "starts swapped":
        found[at] = replace(one, start_seconds=two.start_seconds)
        found[other] = replace(two, start_seconds=one.start_seconds)
        return found, {one.task, two.task}
    else:
        by = random.choice((1, 1, 2, 5, 40, 5000)) * (-1 if change == "earlier" else 1)
        found[at] = replace(one, start_seconds=one.start_seconds + by)
    return found, {one.task}


@pytest.mark.parametrize("change", CHANGES)
@given(seed=seeds)
def test_a_change_is_named_if_and_only_if_it_breaks_a_rule(change: Change, seed: int) -> None:
    """A rule that nobody checks would pass the first; a rule that nobody has, the second."""
    problem = without_deadlines(generated(seed, FEW_SECONDS))
    placed = heft_places(problem)
    assert holds(problem, placed)
    wrong, about = changed(problem, placed, change, Random(seed))
    verdict = validate(problem, Proposal(tuple(wrong)))
    assert verdict.is_valid == holds(problem, wrong)
    if not verdict.is_valid:
        named = {task for each in verdict.broken for task in each.tasks}
        assert about & named, [each.text for each in verdict.broken]
        assert all(any(name in each.text for name in each.tasks) for each in verdict.broken if each.tasks)


@given(seeds, st.integers(-3, 3))
def test_deadlines_are_kept_to_the_second(seed: int, later: int) -> None:
    """A deadline at the plan's own end is kept; a second before it is not."""
    problem = without_deadlines(generated(seed, FEW_SECONDS))
    placed = heft_places(problem)
    end = max(each.start_seconds + problem.task_by_name[each.task].seconds for each in placed)
    due = replace(problem, deadline_seconds=end + later)
    verdict = validate(due, Proposal(tuple(placed)))
    assert verdict.is_valid == (later >= 0) == holds(due, placed)
    assert {each.rule for each in verdict.broken} <= {"deadline"}


@pytest.mark.parametrize("change", CHANGES)
@given(seed=seeds)
def test_the_nearest_plan_is_valid_and_moves_only_what_it_says(change: Change, seed: int) -> None:
    """Of a valid proposal nothing changes; of any other what is told is all that does, and it holds."""
    problem = without_deadlines(generated(seed, FEW_SECONDS))
    wrong, _ = changed(problem, heft_places(problem), change, Random(seed))
    found = nearest(problem, Proposal(tuple(wrong)))
    assert found.verdict.is_valid
    assert found.verdict.plan is not None
    after = {each.task: Placed(each.task, each.node, each.start_seconds) for each in found.verdict.plan.placements}
    assert holds(problem, list(after.values()))
    if found.proposed.is_valid:
        assert after == {each.task: each for each in wrong}
    told = {each.task for each in found.moved} | {each.task for each in found.shifted}
    same = {each.task for each in wrong if after.get(each.task) == each}
    assert told | same >= {task.name for task in problem.tasks}
    assert all([each.why for each in found.moved] + [each.why for each in found.shifted])


@given(seeds)
def test_no_task_moves_that_could_stay(seed: int) -> None:
    """Without a deadline only those move that have no place; wrong times alone move none."""
    random = Random(seed)
    problem = without_deadlines(generated(seed, FEW_SECONDS))
    placed = [replace(each, start_seconds=random.randint(-5, 20)) for each in heft_places(problem)]
    lost = random.sample(placed, random.randint(0, 2))
    wrong = [replace(each, node="nowhere") if each in lost else each for each in placed]
    found = nearest(problem, Proposal(tuple(wrong)))
    assert {each.task for each in found.moved} == {each.task for each in lost}
    assert all(each.from_node is None for each in found.moved)
