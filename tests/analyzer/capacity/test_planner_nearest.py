"""The nearest valid plan keeps what can be kept, and says what it changed and why."""

from dataclasses import replace

from agent.wire.units import GB
from analyzer.capacity.planner.nearest import MovedTask, Shifted, nearest
from analyzer.capacity.planner.problem import Duration, Node, Problem, Task
from analyzer.capacity.planner.proposal import Placed, Proposal
from tests.analyzer.capacity.planner_example import HOUR, four_tasks
from tests.waiting import PATIENCE_SECONDS

EXAMPLE = four_tasks()


def said(**places: tuple[str, int]) -> Proposal:
    """Return a proposal."""
    return Proposal(tuple(Placed(task, *place) for task, place in places.items()))


def test_arithmetic_that_is_wrong_moves_no_task() -> None:
    """What language models get wrong most: the transfers. Nodes stay, and starts follow, each with its reason."""
    found = nearest(
        EXAMPLE, said(T1=("gpuA", 0), T2=("ssdA", 10_800), T3=("ssdA", 0), T4=("ssdA", 18_000)), PATIENCE_SECONDS
    )
    assert found.verdict.is_valid
    assert found.moved == ()
    assert found.shifted == (
        Shifted(
            "T2",
            10_800,
            10_810,
            "T2 starts at 3 h (10800 s), and the data of T1 arrives at 3 h 00 min 10 s (10810 s): 10.0 GB from"
            " gpuA to ssdA within the rack take 10 s; start T2 then or later",
        ),
        Shifted(
            "T4",
            18_000,
            18_011,
            "T4 starts at 5 h (18000 s), and the data of T2 arrives at 5 h 00 min 01 s (18001 s): 10.0 GB from"
            " ssdA to ssdA as a local copy take 1 s; start T4 then or later",
        ),
    )


def test_a_task_without_a_place_goes_where_the_plan_is_shortest() -> None:
    """T3 needs the SSD: it moves there, nothing else does, and the plan is as short as the best."""
    found = nearest(
        EXAMPLE, said(T1=("gpuA", 0), T2=("ssdA", 10_810), T3=("cpuA", 0), T4=("ssdA", 18_011)), PATIENCE_SECONDS
    )
    assert found.moved == (
        MovedTask("T3", "cpuA", "ssdA", "T3 needs a local SSD, and cpuA has none; place it on ssdA"),
    )
    assert found.verdict.plan is not None
    assert found.verdict.plan.makespan_seconds == 9 * HOUR + 11


def test_a_delay_that_was_meant_stays_where_it_costs_nothing() -> None:
    """Who delays a task to keep a node free for others is not told to start it at once."""
    tasks = (
        Task("long", 1, 0, Duration.of(100)),
        Task("late", 1, 0, Duration.of(10)),
        Task("bad", 1, 0, Duration.of(1)),
    )
    problem = Problem(tasks, (Node("n", 8, GB), Node("m", 8, GB)))
    found = nearest(problem, said(long=("n", 0), late=("n", 80), bad=("nowhere", 0)), PATIENCE_SECONDS)
    assert found.shifted == ()
    assert [each.task for each in found.moved] == ["bad"]


def test_a_deadline_moves_as_few_tasks_as_it_takes() -> None:
    """Three one after the other on one node miss the deadline; one of them moved keeps it."""
    tasks = tuple(Task(name, 8, 0, Duration.of(100)) for name in "abc")
    problem = Problem(tasks, tuple(Node(name, 8, GB) for name in "xyz"), deadline_seconds=200)
    found = nearest(problem, said(a=("x", 0), b=("x", 100), c=("x", 200)), PATIENCE_SECONDS)
    assert found.verdict.is_valid
    assert len(found.moved) == 1
    assert found.moved[0].why.startswith(("c ends at", "so that the deadline is kept"))


def test_a_deadline_that_nobody_can_keep_is_missed_by_little() -> None:
    """The answer is then not valid, and breaks that one rule alone."""
    problem = replace(EXAMPLE, deadline_seconds=9 * HOUR)
    found = nearest(problem, said(T1=("gpuA", 0), T2=("cpuB", 0), T3=("ssdA", 0), T4=("cpuA", 0)), PATIENCE_SECONDS)
    assert not found.verdict.is_valid
    assert {each.rule for each in found.verdict.broken} == {"deadline"}
    assert found.verdict.plan is not None
    assert found.verdict.plan.makespan_seconds == 9 * HOUR + 11


def test_an_empty_proposal_is_a_plan_from_nothing() -> None:
    """The third round of a model that says nothing still ends with a plan."""
    found = nearest(EXAMPLE, Proposal(()), PATIENCE_SECONDS)
    assert found.verdict.is_valid
    assert [each.task for each in found.moved] == ["T1", "T2", "T3", "T4"]
