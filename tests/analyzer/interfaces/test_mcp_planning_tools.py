"""Plans over MCP: solved by solvers, checked by the validator, and no figure of a model's is believed."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from analyzer.interfaces.mcp.planning import FILE_LETTERS, PROBLEMS_MAX, ROUNDS, Rounds
from analyzer.settings.settings import Settings
from tests.analyzer.capacity.test_planner_task_reading import FOUR
from tests.analyzer.interfaces.mcp_sites import ORDER, asked, texts

# T2's input is 10 GB over racks at 250 MB/s: 40 s after T1's three hours.
GOOD = [
    {"task": "t1", "node": "gpuA", "start_seconds": 0},
    {"task": "t2", "node": "cpuB", "start_seconds": 10_840},
]
TOO_EARLY = [GOOD[0], GOOD[1] | {"start_seconds": 10_839}]
ON_A_CPU_NODE = [GOOD[0] | {"node": "cpuB"}, GOOD[1]]
FROM_NOWHERE = [GOOD[0], {"task": "t9", "node": "cpuZ", "start_seconds": 10_840}]


def proposal(placements: list[dict[str, Any]], **claims: object) -> str:
    """Return a proposal as a model writes it."""
    return json.dumps({"placements": placements} | claims)


def called(site: tuple[Path, Settings], tool: str, *rounds: dict[str, Any]) -> list[Any]:
    """Return the results of calls, one after the other, to one server."""

    async def each(client: Client) -> list[Any]:
        return [await client.call_tool(tool, arguments) for arguments in rounds]

    return asked(*site, each, anew=True)


def told(site: tuple[Path, Settings], tool: str, **arguments: Any) -> Any:
    """Return what a call that must succeed answers."""
    (result,) = called(site, tool, {"tasks": FOUR} | arguments)
    assert not result.is_error, result.content
    return result.structured_content


def test_a_plan_is_solved(site: tuple[Path, Settings]) -> None:
    """With what no plan can beat, and how the solvers compare."""
    answer = told(site, "solve_plan")
    assert answer["plan"]["makespan_seconds"] == answer["earliest_seconds"] == 10_840 + 7200
    assert answer["plan"]["is_optimal"]
    assert answer["verdict"] == "no_deadline"
    assert set(answer["compared"].values()) == {18_040}
    assert len(answer["problem"]) == 16


def test_a_deadline_that_cannot_be_kept_is_said(site: tuple[Path, Settings]) -> None:
    """A model must not have to reckon."""
    answer = told(site, "solve_plan", tasks=f"finish_by: in 5 h\n{FOUR}")
    assert answer["verdict"] in ("impossible", "not_found")
    assert (answer["deadline_seconds"], answer["earliest_seconds"]) == (18_000, 18_040)


def test_a_right_proposal_is_valid_and_its_wrong_figures_are_ours_now(site: tuple[Path, Settings]) -> None:
    """Language models place well and reckon badly."""
    answer = told(site, "validate_plan", proposal=proposal(GOOD, makespan_seconds=9, cost_usd=1))
    assert (answer["is_valid"], answer["broken"], answer["instead"]) == (True, [], None)
    assert answer["plan"]["makespan_seconds"] == 18_040
    assert answer["plan"]["cost_micros"] is None, "no price is known"
    assert len(answer["corrected"]) == 2


@pytest.mark.parametrize(
    ("placements", "rules"),
    [
        (TOO_EARLY, {"transfer"}),
        (ON_A_CPU_NODE, {"fit"}),
        (FROM_NOWHERE, {"unknown", "missing"}),
        (GOOD[:1], {"missing"}),
        ([*GOOD, GOOD[0]], {"twice"}),
        ([GOOD[1] | {"start_seconds": 0}, GOOD[0]], {"order"}),
        ([GOOD[0] | {"start_seconds": -5}, GOOD[1]], {"early"}),
        ([], {"missing"}),
    ],
)
def test_what_is_broken_is_named_with_the_nearest_plan(
    site: tuple[Path, Settings], placements: list[dict[str, Any]], rules: set[str]
) -> None:
    """And the plan in its place keeps every rule."""
    answer = told(site, "validate_plan", proposal=proposal(placements))
    assert not answer["is_valid"]
    assert {each["rule"] for each in answer["broken"]} >= rules
    assert (answer["instead_is"], answer["instead_is_valid"], answer["rounds_left"]) == ("nearest", True, 2)
    mended = [{"task": "t1", "node": "gpuA"}, {"task": "t2", "node": "cpuB"}]
    told_ = [{key: each[key]["untrusted"] for key in ("task", "node")} for each in answer["instead"]["placements"]]
    assert sorted(told_, key=lambda each: each["task"]) == mended


def test_a_stale_proposal_is_named(site: tuple[Path, Settings]) -> None:
    """One that was made for another problem."""
    answer = told(site, "validate_plan", proposal=proposal(GOOD, problem="0123456789abcdef"))
    assert [each["rule"] for each in answer["broken"]] == ["stale"]
    current = told(site, "validate_plan", proposal=proposal(GOOD, problem=answer["problem"]))
    assert current["is_valid"]


def test_after_three_rounds_the_solvers_plan_stands(site: tuple[Path, Settings]) -> None:
    """A model may learn, but not for ever."""
    wrong = {"tasks": FOUR, "proposal": proposal(TOO_EARLY)}
    answers = [each.structured_content for each in called(site, "validate_plan", *[wrong] * (ROUNDS + 1))]
    assert [each["instead_is"] for each in answers] == ["nearest", "nearest", "solver", "solver"]
    assert [each["rounds_left"] for each in answers] == [2, 1, 0, 0]
    assert answers[2]["instead"]["solver"] != "said"


def test_rounds_are_counted_by_who_asks_and_for_what() -> None:
    """Nobody uses up another's, what holds begins anew, and what is kept is bounded."""
    rounds = Rounds()
    assert [rounds.count("a", "p", is_valid=False) for _ in range(5)] == [1, 2, 3, 4, 4]
    assert rounds.count("b", "p", is_valid=False) == 1
    assert rounds.count("a", "q", is_valid=False) == 1
    assert rounds.count("a", "p", is_valid=True) == 4
    assert rounds.count("a", "p", is_valid=False) == 1
    for number in range(PROBLEMS_MAX + 10):
        rounds.count("c", str(number), is_valid=False)
    assert rounds.count("b", "p", is_valid=False) == 1
    assert len(rounds._counts) <= PROBLEMS_MAX


def test_a_plan_is_simulated(site: tuple[Path, Settings]) -> None:
    """With a probability: nobody is told that they will finish on time without one."""
    spread = f"finish_by: in 6 h\n{FOUR.replace('duration: 3 h', 'duration: {p10: 2 h, p50: 3 h, p90: 5 h}')}"
    answer = told(site, "simulate_plan", tasks=spread)
    assert answer["p10_seconds"] < answer["p50_seconds"] < answer["p90_seconds"]
    assert 0 < answer["on_time_ratio"] < 1
    assert [each["untrusted"] for each in answer["tasks_without_spread"]] == ["t2"]
    of_proposal = told(site, "simulate_plan", tasks=spread, proposal=proposal(GOOD))
    assert of_proposal["plan"]["solver"] == "said"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("solve_plan", {"tasks": "/etc/passwd"}),
        ("solve_plan", {"tasks": "a: &a [x]\nb: *a\n"}),
        ("solve_plan", {"tasks": "x" * (FILE_LETTERS + 1)}),
        ("solve_plan", {"tasks": FOUR.replace("after: [t1]", "after: [t9]")}),
        ("solve_plan", {"tasks": "nodes: inventory\ntasks: {a: {cpus: 1, memory: 1 GB, gpu: none, duration: 1 h}}"}),
        ("solve_plan", {"tasks": FOUR.replace("duration: 3 h", "duration: {history: nightly}")}),
        ("validate_plan", {"tasks": FOUR, "proposal": "not JSON"}),
        ("validate_plan", {"tasks": FOUR, "proposal": '{"placements": [], "apply": true}'}),
        ("validate_plan", {"tasks": FOUR, "proposal": '{"placements": [{"task": "t1"}]}'}),
        ("simulate_plan", {"tasks": FOUR, "proposal": proposal(TOO_EARLY)}),
        ("simulate_plan", {"tasks": FOUR, "proposal": proposal(FROM_NOWHERE)}),
    ],
)
def test_what_cannot_be_planned_is_refused_in_a_sentence(
    site: tuple[Path, Settings], tool: str, arguments: dict[str, Any]
) -> None:
    """The sentence says what to mend; no file is read."""
    (result,) = called(site, tool, arguments)
    assert result.is_error
    text = result.content[0].text
    assert "Traceback" not in text
    assert "root:" not in text


def test_a_large_plan_is_told_in_part(site: tuple[Path, Settings]) -> None:
    """What is left out is counted: an answer has to fit into what a model can read."""
    tasks = [f"  t{number}{'x' * 190}: {{cpus: 4, memory: 1 GB, gpu: none, duration: 1 h}}" for number in range(120)]
    nodes, _, _ = FOUR.partition("tasks:")
    answer = told(site, "solve_plan", tasks=f"{nodes}tasks:\n" + "\n".join(tasks))
    assert answer["plan"]["placement_count"] == 120
    assert 20 < len(answer["plan"]["placements"]) < 120
    assert len(json.dumps(answer)) < 40_000


def test_names_of_tasks_are_data(site: tuple[Path, Settings]) -> None:
    """A task file may be copied from anywhere."""
    tasks = FOUR.replace("t1", f'"{ORDER}"', 1).replace("[t1]", f'["{ORDER}"]')
    keys = {key for key, text in texts(told(site, "solve_plan", tasks=tasks)) if ORDER in text}
    assert keys == {"untrusted"}
    answer = told(site, "validate_plan", tasks=tasks, proposal=proposal(GOOD))
    assert {key for key, text in texts(answer) if ORDER in text} == {"untrusted"}


def test_a_proposal_and_its_verdict_are_logged_in_one_bounded_line(
    site: tuple[Path, Settings], caplog: pytest.LogCaptureFixture
) -> None:
    """Who looks later sees what was proposed, and why it was refused; no model can forge a line of the log."""
    many = TOO_EARLY + [GOOD[0] | {"start_seconds": number} for number in range(2000)]
    with caplog.at_level(logging.INFO, "analyzer.interfaces.mcp.planning"):
        told(site, "validate_plan", proposal=proposal(many) + "\n\n")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "analyzer.interfaces.mcp.planning"]
    assert "not valid" in line
    assert "twice" in line
    assert "t2" in line
    assert line.isprintable()
    assert len(line) < 2200
