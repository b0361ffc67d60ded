"""What a plan comes to when durations vary: nodes and order stay, and nothing is promised that a draw could break."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.units import GB
from analyzer.capacity.planner.instance import Instance
from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.problem import RESOURCES, Duration, Input, Network, Node, Problem, Task
from analyzer.capacity.planner.schedule import plan_of
from analyzer.capacity.planner.simulation import (
    Replay,
    drawn_from,
    links_cost_seconds,
    simulate,
)
from analyzer.capacity.planner.solve import heft
from analyzer.capacity.planner.task_file import read_tasks
from bench.plans.brute import puts, replayed
from bench.plans.problems import TINY, Size, generated, of_everything
from tests.analyzer.capacity.planner_example import four_tasks

SMALL = Size(tasks_max=12, nodes_max=4)


def planned(problem: Problem) -> Plan:
    """Return HEFT's plan."""
    instance = Instance(problem)
    return plan_of(instance, heft(instance), "heft")


@given(st.integers(1, 10**5), st.integers(0, 10**5), st.integers(0, 10**5))
def test_the_curve_hits_its_three_quantiles(p10: int, more: int, still_more: int) -> None:
    """One tenth of the draws is at or below the P10, half at or below the P50, nine tenths at or below the P90."""
    duration = Duration(p10, p10 + more, p10 + more + still_more)
    draw, random = drawn_from(duration), Random(1)
    drawn = sorted(draw(random) for _ in range(4000))
    for share, said in ((0.1, duration.p10_seconds), (0.5, duration.p50_seconds), (0.9, duration.p90_seconds)):
        below = sum(each < said for each in drawn) / len(drawn)
        until = sum(each <= said for each in drawn) / len(drawn)
        assert below - 0.03 <= share <= until + 0.03


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_duration_is_never_negative(p50: int, more: int) -> None:
    """A P10 of 0 has no logarithm; the curve then ends at 0."""
    draw, random = drawn_from(Duration(0, p50, p50 + more)), Random(1)
    assert min(draw(random) for _ in range(500)) >= 0


def test_real_runs_are_drawn_where_there_are_some() -> None:
    """A site's own history has shapes that no curve has."""
    draw, random = drawn_from(Duration(1, 2, 3), (7, 700)), Random(1)
    assert {draw(random) for _ in range(50)} == {7, 700}


def test_durations_that_do_not_vary_end_when_the_plan_ends() -> None:
    """Nine hours and eleven seconds in every draw, and it is said of which tasks no spread is known."""
    problem = four_tasks()
    outlook = simulate(problem, planned(problem), draws=20)
    assert (outlook.p10_seconds, outlook.p50_seconds, outlook.p90_seconds) == (32_411, 32_411, 32_411)
    assert outlook.tasks_without_spread == ("T1", "T2", "T3", "T4")
    assert outlook.on_time_ratio is None


def _one(p10: int, p50: int, p90: int, deadline: int | None = None, own: int | None = None) -> Problem:
    task = Task("t", 1, 0, Duration(p10, p50, p90), deadline_seconds=own)
    return Problem((task,), (Node("n", 1, 0),), deadline_seconds=deadline)


@pytest.mark.parametrize(("deadline", "own"), [(1200, None), (None, 1200), (5000, 1200), (1200, 5000)])
def test_the_share_on_time_is_that_of_the_draws_that_keep_every_deadline(deadline: int | None, own: int | None) -> None:
    """One task whose P90 is the deadline keeps it in nine draws of ten, whoever's deadline it is."""
    problem = _one(900, 1000, 1200, deadline, own)
    outlook = simulate(problem, planned(problem), draws=4000)
    assert outlook.on_time_ratio == pytest.approx(0.9, abs=0.02)
    assert outlook.p90_seconds == pytest.approx(1200, rel=0.02)


def test_two_that_must_both_end_are_later_than_either() -> None:
    """What a sum of medians hides: a task after two that vary waits for the later one."""
    wide = Duration(600, 1000, 3000)
    tasks = (
        Task("a", 1, 0, wide),
        Task("b", 1, 0, wide),
        Task("c", 1, 0, Duration.of(1), inputs=(Input("a"), Input("b"))),
    )
    problem = Problem(tasks, (Node("n1", 1, 0), Node("n2", 1, 0)))
    plan = planned(problem)
    assert plan.makespan_seconds == 1001
    assert simulate(problem, plan).p50_seconds > 1300


def test_the_same_seed_gives_the_same_outlook() -> None:
    """A figure that changes from call to call would be argued about."""
    problem = generated(11, SMALL)
    plan = planned(problem)
    assert simulate(problem, plan, draws=50, seed=3) == simulate(problem, plan, draws=50, seed=3)


def test_draws_are_bounded() -> None:
    """Whoever asks for a thousand million of them would wait for a week."""
    problem = four_tasks()
    with pytest.raises(ValueError, match="draw 1 to 100,000 times"):
        simulate(problem, planned(problem), draws=10**9)


@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_no_draw_overfills_a_node_or_starts_before_its_inputs(seed: int, random: Random) -> None:
    """Whatever the durations, the order that was settled once leaves room for all, and data arrives first."""
    problem = generated(seed, SMALL)
    plan = planned(problem)
    replay = Replay(problem, plan)
    seconds = [random.randint(0, 9000) if step.task.seconds else 0 for step in replay.steps]
    for ends in (replay.ends(seconds), replay.ends(seconds, shares_links=False)):
        spans = {
            step.task.name: (end - lasts, end) for step, lasts, end in zip(replay.steps, seconds, ends, strict=True)
        }
        _held(problem, plan, spans)


def _held(problem: Problem, plan: Plan, spans: dict[str, tuple[int, int]]) -> None:
    for task in problem.tasks:
        start = spans[task.name][0]
        node = problem.node_by_name[plan.by_task[task.name].node]
        assert start >= max(task.earliest_start_seconds, node.available_from_seconds)
        for each in task.inputs:
            medium = problem.medium([plan.by_task[each.task].node], [node.name])
            assert start >= spans[each.task][1] + problem.network.seconds(medium, each.bytes)
        running = [
            other
            for other in problem.tasks
            if plan.by_task[other.name].node == node.name and spans[other.name][0] <= start < spans[other.name][1]
        ]
        for resource in RESOURCES:
            assert sum(getattr(other, resource) for other in running) <= getattr(node, resource)


@pytest.mark.parametrize("made", [generated, of_everything])
@given(seed=st.integers(0, 10**6))
def test_as_planned_nothing_is_later_than_planned(made: Callable[[int, Size], Problem], seed: int) -> None:
    """The replay waits for no more than the plan did."""
    problem = made(seed, SMALL)
    plan = planned(problem)
    replay = Replay(problem, plan)
    seconds = [step.duration.p50_seconds for step in replay.steps]
    ends = replay.ends(seconds, shares_links=False)
    assert all(end <= plan.by_task[step.task.name].end_seconds for step, end in zip(replay.steps, ends, strict=True))
    contended = replay.ends(seconds)
    assert links_cost_seconds(problem, plan) == max(0, max(contended) - max(ends))


def _fan(media: Sequence[tuple[str, str]], network: Network) -> tuple[Problem, Plan]:
    """Return two tasks of a second, each of which sends 10 GB to a task elsewhere at once."""
    tasks = []
    for name, (source, target) in zip("ab", media, strict=True):
        tasks.append(Task(name, 1, 0, Duration.of(1), node=source))
        tasks.append(Task(f"after {name}", 1, 0, Duration.of(0), node=target, inputs=(Input(name, 10 * GB),)))
    racks = {"A1": "A", "A2": "A", "A3": "A", "B1": "B", "B2": "B"}
    nodes = tuple(Node(name, 8, 0, rack=rack) for name, rack in racks.items())
    problem = Problem(tuple(tasks), nodes, network)
    return problem, planned(problem)


@pytest.mark.parametrize(
    ("media", "network", "later"),
    [
        ([("A1", "A2"), ("A1", "A3")], Network(), 10),  # one port out, 10 s each
        ([("A1", "A3"), ("A2", "A3")], Network(), 10),  # one port in
        ([("A1", "A2"), ("A3", "A3")], Network(), 0),  # the rack and a local copy share nothing
        ([("A1", "B1"), ("A2", "B2")], Network(), 40),  # one uplink, 40 s each
        ([("A1", "B1"), ("B2", "A2")], Network(), 0),  # to and fro
        ([("A1", "A2"), ("B1", "B2")], Network(path="storage"), 900),  # all share the storage, 15 min each
    ],
)
def test_transfers_that_share_a_link_slow_each_other_down(
    media: list[tuple[str, str]], network: Network, later: int
) -> None:
    """The solvers take each transfer as if it were alone; this is how much that may hide."""
    problem, plan = _fan(media, network)
    assert links_cost_seconds(problem, plan) == later
    replay = Replay(problem, plan)
    seconds = [step.duration.p50_seconds for step in replay.steps]
    assert max(replay.ends(seconds)) == plan.makespan_seconds + later


ROOM = """
start: 2026-11-27T05:00
finish_by: 2026-11-27T07:30
nodes:
  n1: {cpus: 16, memory: 128 GB, gpus: 2, hbm: 80 GB}
tasks:
  a: {cpus: 1, memory: 1 GB, gpu: 1, duration: {p10: 30 min, p50: 60 min, p90: 180 min}}
  b: {cpus: 1, memory: 1 GB, gpu: 1, duration: 61 min}
  c: {cpus: 1, memory: 1 GB, gpu: 1, duration: 60 min}
"""


def test_a_task_takes_whichever_room_comes_free_first() -> None:
    """c waits for a GPU, not for the one that a leaves in the plan: where a takes long it follows b."""
    problem = read_tasks(ROOM, now=0).problem()
    outlook = simulate(problem, planned(problem), draws=10_000)
    assert outlook.on_time_ratio == pytest.approx(0.857, abs=0.03)


@pytest.mark.parametrize("made", [generated, of_everything])
@given(seed=st.integers(0, 10**6), random=st.randoms(use_true_random=False))
def test_the_replay_is_that_of_the_rule_second_after_second(
    made: Callable[[int, Size], Problem], seed: int, random: Random
) -> None:
    """Whatever the durations: the events of the replay are those that the rule of the docs has, links to themselves."""
    problem = made(seed, Size(8, 2, TINY.seconds))
    plan = planned(problem)
    replay = Replay(problem, plan)
    seconds = [random.choice((0, 1, 2, 5, 9)) for _ in replay.steps]
    ends = replay.ends(seconds, shares_links=False)
    names = [step.task.name for step in replay.steps]
    expected = replayed(problem, puts(problem, plan), dict(zip(names, seconds, strict=True)))
    assert dict(zip(names, ends, strict=True)) == expected


def test_an_array_ends_when_its_work_is_done() -> None:
    """500 of about an hour on 20 GPUs: each takes the GPU that is free, so none is idle until the last are begun."""
    hour = Duration(1800, 3600, 7200)
    tasks = tuple(Task(f"s{number}", 1, 0, hour, gpus=1) for number in range(500))
    problem = Problem(tasks, (Node("n", 64, 0, gpus=20),))
    outlook = simulate(problem, planned(problem), draws=60)
    draw, random = drawn_from(hour), Random(5)
    work = sum(draw(random) for _ in range(20_000)) / 20_000 * 500 / 20
    assert 0.95 * work < outlook.p10_seconds < outlook.p90_seconds < 1.05 * work + hour.p90_seconds
