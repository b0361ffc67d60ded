"""The validator is the last that looks: each kind of broken rule is named, with its figures and the way out."""

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from agent.wire.units import GB
from analyzer.capacity.planner import plan as plan_module
from analyzer.capacity.planner import problem as problem_module
from analyzer.capacity.planner.plan import Plan
from analyzer.capacity.planner.problem import Duration, Input, Network, Node, Planned, Problem, Task
from analyzer.capacity.planner.proposal import Broken, Claims, Placed, Proposal, fingerprint
from analyzer.capacity.planner.validator import Verdict, validate
from tests.analyzer.capacity.planner_example import HOUR, four_tasks

PLANNER = Path(__file__).parents[3] / "analyzer" / "capacity" / "planner"
VALIDATOR = (PLANNER / "validator.py", PLANNER / "proposal.py")
# What a validator may know of ours: the shapes of question and answer, and how figures are spelled.
MAY_IMPORT = (
    "agent.wire.bounded",
    "analyzer.settings.bounded",
    "agent.wire.units",
    "analyzer.capacity.planner.validator",
    "analyzer.capacity.planner.proposal",
    "analyzer.capacity.planner.problem",
    "analyzer.capacity.planner.plan",
    "analyzer.text.words",
)
EXAMPLE = four_tasks()
BEST = {"T1": ("gpuA", 0), "T2": ("ssdA", 10_810), "T3": ("ssdA", 0), "T4": ("ssdA", 18_011)}


def proposal(**places: tuple[str, int] | None) -> Proposal:
    """Return the best plan of the example with some tasks elsewhere, or left out."""
    chosen = BEST | places
    return Proposal(tuple(Placed(task, *place) for task, place in chosen.items() if place is not None))


def rules(verdict: Verdict) -> set[str]:
    """Return the rules that are broken."""
    return {each.rule for each in verdict.broken}


def only(verdict: Verdict) -> Broken:
    """Return the one rule that is broken."""
    assert len(verdict.broken) == 1, verdict.broken
    assert not verdict.is_valid
    return verdict.broken[0]


def test_the_best_plan_of_the_example_is_valid() -> None:
    """9 h 00 m 11 s: ten seconds in the rack, one second as a local copy, and nine hours of work."""
    verdict = validate(EXAMPLE, proposal())
    assert verdict.is_valid
    assert verdict.broken == ()
    assert verdict.plan is not None
    assert verdict.plan.makespan_seconds == 9 * HOUR + 11
    assert [(each.before, each.medium, each.end_seconds - each.start_seconds) for each in verdict.plan.transfers] == [
        ("T1", "rack", 10),
        ("T2", "local", 1),
        ("T3", "local", 1),
    ]


@pytest.mark.parametrize(
    ("places", "rule", "says"),
    [
        ({"T2": None}, "missing", "T2 is not in the plan; place it on ssdA, cpuA, cpuB"),
        ({"T5": ("ssdA", 0)}, "unknown", "there is no task 'T5'; there are T1, T2, T3, T4"),
        ({"T3": ("ssdB", 0)}, "unknown", "T3 is placed on node 'ssdB', which does not exist; did you mean ssdA?"),
        ({"T1": ("cpuA", 0)}, "fit", "T1 needs 1 GPU, and cpuA has none; place it on gpuA"),
        ({"T3": ("cpuA", 0)}, "fit", "T3 needs a local SSD, and cpuA has none; place it on ssdA"),
        ({"T2": ("gpuA", 10_801)}, "fit", "T2 stays off nodes with GPUs, and gpuA has 1 GPU; place it on"),
        ({"T1": ("gpuA", -1)}, "early", "T1 starts at -1 s, before the plan starts at 0 s; start it at 0 s or later"),
        (
            {"T2": ("ssdA", 10_799)},
            "order",
            "T2 starts at 2 h 59 min 59 s (10799 s), and T1, which it waits for, ends at 3 h (10800 s);"
            " start T2 at 3 h 00 min 10 s (10810 s) or later: 10.0 GB from gpuA to ssdA within the rack take 10 s",
        ),
        (
            {"T2": ("cpuB", 10_830), "T4": ("ssdA", 18_070)},
            "transfer",
            "T2 starts at 3 h 00 min 30 s (10830 s), and the data of T1 arrives at 3 h 00 min 40 s (10840 s):"
            " 10.0 GB from gpuA to cpuB between racks take 40 s; start T2 then or later",
        ),
    ],
)
def test_each_broken_rule_is_named(places: dict[str, tuple[str, int] | None], rule: str, says: str) -> None:
    """One change, one sentence that whoever proposed can act on: ids, figures, the way out."""
    found = only(validate(EXAMPLE, proposal(**places)))
    assert found.rule == rule
    assert says in found.text


def test_a_task_is_placed_once() -> None:
    """Two places for one task would run it twice, or nowhere, depending on who reads."""
    twice = Proposal((*proposal().placements, Placed("T2", "cpuA", 20_000)))
    found = only(validate(EXAMPLE, twice))
    assert found.rule == "twice"
    assert found.text == (
        "T2 is placed 2 times, on ssdA at 3 h 00 min 10 s (10810 s), cpuA at 5 h 33 min 20 s (20000 s);"
        " keep one of them"
    )


def test_a_proposal_for_another_problem_is_stale() -> None:
    """What was proposed before a node changed is not looked at as if nothing had; a later start of all is no change."""
    stale = replace(proposal(), problem=fingerprint(four_tasks(output_gb=20)))
    assert only(validate(EXAMPLE, stale)).rule == "stale"
    later = replace(EXAMPLE, starts_at=1, deadline_seconds=99_999)
    assert validate(later, replace(proposal(), problem=fingerprint(EXAMPLE))).is_valid


def _crowded(**needs: int) -> Problem:
    """Return three tasks of an hour on one node that has ten of everything, a gigabyte of bytes."""
    size = {"cpus": 0, "memory_bytes": 0} | needs
    tasks = tuple(
        Task(name, duration=Duration.of(HOUR), needs_ssd="ssd_bytes" in needs, **size)  # type: ignore[arg-type]
        for name in ("a", "b", "c")
    )
    return Problem(tasks, (Node("n", 10, 10 * GB, gpus=10, ssd_bytes=10 * GB),))


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ({"cpus": 5}, "n has 10 CPUs, and from 30 m"),
        ({"memory_bytes": 5 * GB}, "n has 10.0 GB of memory"),
        ({"gpus": 5}, "n has 10 GPUs"),
        ({"ssd_bytes": 5 * GB}, "n has 10.0 GB of local SSD"),
    ],
)
def test_a_node_carries_what_it_has_at_any_moment(needs: dict[str, int], says: str) -> None:
    """Two of three fit at a time: the span in which all three run is named, and touching ends are no overlap."""
    problem = _crowded(**needs)
    touching = Proposal((Placed("a", "n", 0), Placed("b", "n", 0), Placed("c", "n", HOUR)))
    assert validate(problem, touching).is_valid
    crowded = Proposal((Placed("a", "n", 0), Placed("b", "n", HOUR // 3), Placed("c", "n", HOUR // 2)))
    found = only(validate(problem, crowded))
    assert found.rule == "capacity"
    assert found.tasks == ("a", "b", "c")
    assert says.split(", and")[0] in found.text
    assert "from 30 min (1800 s) to 1 h (3600 s) a, b, c need up to 15" in found.text.replace("15.0 GB", "15")


def test_memory_of_the_gpu_nodes_and_deadlines() -> None:
    """HBM is of each GPU; a task's own deadline counts where it is the earlier one."""
    task = Task("t", 1, GB, Duration.of(HOUR), gpus=1, hbm_bytes=80 * GB, deadline_seconds=HOUR)
    small, large = Node("small", 8, GB, gpus=1, hbm_bytes=40 * GB), Node("large", 8, GB, gpus=1, hbm_bytes=80 * GB)
    problem = Problem((task,), (small, large), deadline_seconds=2 * HOUR)
    text = only(validate(problem, Proposal((Placed("t", "small", 0),)))).text
    assert text == ("t needs 80.0 GB of memory on each GPU, and those of small have 40.0 GB; place it on large")
    late = only(validate(problem, Proposal((Placed("t", "large", 1),))))
    assert late.rule == "deadline"
    assert late.text == (
        "t ends at 1 h 00 min 01 s (3601 s), 1 s after its deadline at 1 h (3600 s); start it at 0 s or"
        " earlier, or ask for a later deadline"
    )


def test_pins_groups_and_what_is_not_there_yet() -> None:
    """What a task is tied to holds for whoever proposes, and a node is not there before it is."""
    nodes = (Node("n1", 8, GB, group="prep"), Node("n2", 8, GB, available_from_seconds=60))
    pinned = Task("pinned", 1, 0, Duration.of(1), node="n1")
    grouped = Task("grouped", 1, 0, Duration.of(1), group="prep", earliest_start_seconds=5)
    problem = Problem((pinned, grouped), nodes)
    verdict = validate(problem, Proposal((Placed("pinned", "n2", 60), Placed("grouped", "n2", 59))))
    texts = [each.text for each in verdict.broken]
    assert texts == [
        "pinned must run on n1, and is put on n2; place it on n1",
        "grouped must run in group prep, and n2 is in none; place it on n1",
        "grouped starts at 59 s, before n2 is available at 1 min (60 s); start it at 1 min (60 s) or later",
    ]


def _priced() -> Problem:
    """Return one task of an hour, planned on a node of 8 $ an hour, half of whose CPUs it takes; another costs 2 $."""
    nodes = (
        Node("dear", 8, GB, price_micros_per_hour=8_000_000),
        Node("cheap", 8, GB, price_micros_per_hour=2_000_000),
    )
    return Problem((Task("t", 4, 0, Duration.of(HOUR), planned=Planned("dear", 0)),), nodes)


def test_figures_are_ours_and_wrong_ones_are_said() -> None:
    """A model's arithmetic is where it fails most: its figures are overwritten, and the plan itself stands."""
    said = Proposal((Placed("t", "cheap", 0, 1800),), Claims(1800, 500_000, 7_000_000))
    verdict = validate(_priced(), said)
    assert verdict.is_valid
    assert verdict.plan is not None
    assert (verdict.plan.makespan_seconds, verdict.plan.cost_micros, verdict.savings_micros) == (
        HOUR,
        1_000_000,
        3_000_000,
    )
    assert verdict.corrected == (
        "t is said to end at 30 min (1800 s); it ends at 1 h (3600 s)",
        "the plan is said to take 30 min (1800 s); it takes 1 h (3600 s)",
        "the plan is said to cost $0.50; it costs $1.00",
        "the plan is said to save $7.00; it saves $3.00",
    )


def test_figures_that_are_right_are_not_said() -> None:
    """To the cent, for that is how amounts are read."""
    right = Proposal((Placed("t", "cheap", 0, HOUR),), Claims(HOUR, 1_004_000, 3_000_000))
    assert validate(_priced(), right).corrected == ()


def test_no_price_is_guessed() -> None:
    """Without a price there is no cost, and no saving; whoever claims one is told."""
    problem = _priced()
    unpriced = replace(problem, nodes=(replace(problem.nodes[0], price_micros_per_hour=None), problem.nodes[1]))
    verdict = validate(unpriced, Proposal((Placed("t", "cheap", 0),), Claims(savings_micros=1)))
    assert verdict.savings_micros is None
    assert verdict.corrected == (
        "the plan is said to save $0.000001;"
        " that cannot be checked: there is no plan to compare with, or a price is not known",
    )


def test_one_round_tells_all() -> None:
    """A model gets few rounds: what exists is checked even where something does not."""
    verdict = validate(EXAMPLE, proposal(T9=("gpuA", 0), T2=("ssdA", 0), T3=("nowhere", 0)))
    assert rules(verdict) == {"unknown", "order"}
    assert verdict.plan is None


def test_a_plan_without_tasks_is_no_plan() -> None:
    """An empty answer names all that is missing."""
    verdict = validate(EXAMPLE, Proposal(()))
    assert [each.tasks for each in verdict.broken] == [("T1",), ("T2",), ("T3",), ("T4",)]


def test_who_makes_up_thousands_of_tasks_is_answered_soon_and_shortly() -> None:
    """Looking for the nearest name is slow, and a text of a million letters helps nobody."""
    verdict = validate(EXAMPLE, Proposal(tuple(Placed(f"x{number}", "y", 0) for number in range(10_000))))
    assert len(verdict.broken) < 30
    assert sum(len(each.text) for each in verdict.broken) < 4_000


def test_storage_takes_as_long_between_all_nodes() -> None:
    """20 GB in 30 minutes is 10 GB in exactly 15; a byte more is a second more."""
    for size, seconds in ((10 * GB, 900), (10 * GB + 1, 901)):
        tasks = (Task("a", 1, 0, Duration.of(1)), Task("b", 1, 0, Duration.of(1), inputs=(Input("a", size),)))
        problem = Problem(tasks, (Node("n1", 1, 0), Node("n2", 1, 0)), Network(path="storage"))
        assert validate(problem, Proposal((Placed("a", "n1", 0), Placed("b", "n2", 1 + seconds)))).is_valid
        soon = only(validate(problem, Proposal((Placed("a", "n1", 0), Placed("b", "n2", seconds)))))
        assert soon.rule == "transfer"


def _imports() -> Iterator[str]:
    for path in VALIDATOR:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.module or ""


def _made_by_code(module: object) -> set[str]:
    """Return the methods, properties and functions of a module of dataclasses: what is more than a field."""
    found: set[str] = set()
    for value in vars(module).values():
        if getattr(value, "__module__", None) != getattr(module, "__name__", ""):
            continue
        if isinstance(value, type):
            plain = {each.name for each in fields(value)} if is_dataclass(value) else set()  # else an error
            found |= {name for name in vars(value) if not name.startswith("__")} - plain
        elif callable(value):
            found.add(value.__name__)
    return found


def test_it_shares_no_code_with_what_makes_plans() -> None:
    """An error that both had would pass: it reads the fields of problem and plan, and calls nothing of theirs.

    Of a plan that it has made itself it may ask the two things that every reader of plans asks.
    """
    foreign = [name for name in _imports() if name.startswith(("analyzer", "agent", "collector", "dashboards"))]
    assert [name for name in foreign if not name.startswith(MAY_IMPORT)] == []
    forbidden = _made_by_code(problem_module) | _made_by_code(plan_module)
    forbidden -= {"makespan_seconds", "by_task"}
    assert {"eligible", "seconds_for", "lacks", "seconds", "medium"} <= forbidden
    used = [
        (path.name, node.attr)
        for path in VALIDATOR
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in forbidden
    ]
    # `rate.seconds` is a field of Rate; `medium` of Transfer; `nodes` of Problem, `gpus` of Task.
    assert set(used) <= {("validator.py", name) for name in ("seconds", "medium", "nodes", "gpus")}
    imported = [name for path in VALIDATOR for name in _names_imported(path)]
    assert set(imported) & forbidden == set()


def _names_imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def test_the_figures_of_a_plan_are_those_of_its_placements() -> None:
    """`makespan_seconds` is asked of the plan, whose own sum is checked here."""
    verdict = validate(EXAMPLE, proposal())
    assert isinstance(verdict.plan, Plan)
    assert verdict.plan.makespan_seconds == max(each.end_seconds for each in verdict.plan.placements)
