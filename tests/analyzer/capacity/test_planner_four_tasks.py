"""The four-task example, from its task file to the figures that others computed for it."""

from pathlib import Path

import pytest

from analyzer.capacity.planner.plan import Plan, Solver
from analyzer.capacity.planner.problem import Problem
from analyzer.capacity.planner.solve import solve
from analyzer.capacity.planner.task_file import read_tasks
from tests.waiting import PATIENCE_SECONDS

FILE = Path(__file__).with_name("planner_four_tasks.yaml")
CASES = {
    ("10 GB", "direct", "forbidden"): ("9:00:11", "9:00:11", "14:00:20"),
    ("10 GB", "storage", "forbidden"): ("9:15:01", "9:15:01", "14:30:00"),
    ("20 GB", "direct", "forbidden"): ("9:00:12", "9:00:20", "14:00:30"),
    ("20 GB", "storage", "forbidden"): ("9:15:02", "9:30:00", "14:45:00"),
    # CPU-only as "needs no GPU"; of these the reference gives the first optimum alone, and the rest is ours.
    ("10 GB", "direct", "none"): ("9:00:10", "9:00:10", "14:00:20"),
    ("10 GB", "storage", "none"): ("9:15:00", "9:15:00", "14:30:00"),
    ("20 GB", "direct", "none"): ("9:00:12", "9:00:20", "14:00:30"),
    ("20 GB", "storage", "none"): ("9:15:02", "9:30:00", "14:45:00"),
}


def four(output: str, path: str, cpu_only: str, finish_by: str = "") -> Problem:
    """Return the problem of the file, with what the articles leave open said."""
    text = FILE.read_text("utf-8").replace("output: 10 GB", f"output: {output}")
    text = text.replace("path: direct", f"path: {path}").replace("gpu: forbidden", f"gpu: {cpu_only}")
    return read_tasks(text + (f"finish_by: {finish_by}\n" if finish_by else ""), now=0).problem()


def clock(plan: Plan) -> str:
    """Return how long a plan takes, as hours, minutes and seconds."""
    seconds = plan.makespan_seconds
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_every_row_of_the_published_table_comes_out(case: tuple[str, str, str]) -> None:
    """Optimum, HEFT and OLB; the optimum is proven, whichever solver found it."""
    optimum, by_heft, by_olb = CASES[case]
    answer = solve(four(*case), seconds=PATIENCE_SECONDS)
    compared = {plan.solver: clock(plan) for plan in answer.compared}
    assert (clock(answer.plan), compared["heft"], compared["olb"]) == (optimum, by_heft, by_olb)
    assert answer.plan.is_optimal


@pytest.mark.parametrize("case", [("20 GB", "direct", "none"), ("20 GB", "storage", "none")], ids="-".join)
def test_cp_sat_finds_and_proves_what_heft_misses(case: tuple[str, str, str]) -> None:
    """The path is no proof here: CP-SAT has to look at all plans, with HEFT's longer one as its hint."""
    solvers: tuple[Solver, ...] = ("heft", "cp_sat")
    answer = solve(four(*case), seconds=PATIENCE_SECONDS, solvers=solvers)
    assert (answer.plan.solver, clock(answer.plan)) == ("cp_sat", CASES[case][0])
    assert answer.plan.bound is not None
    assert answer.plan.bound.kind == "search"


def test_less_than_nine_hours_is_proven_impossible_by_the_path() -> None:
    """The two chains run nine hours without any transfer, so no placement helps, and nothing has slack."""
    answer = solve(four("10 GB", "direct", "forbidden", "2026-11-23T16:59"), PATIENCE_SECONDS)
    assert answer.verdict == "impossible"
    assert answer.earliest_seconds == 9 * 3600 + 11
    assert answer.plan.bound is not None
    assert answer.plan.bound.tasks == ("T1", "T2", "T4")
    assert answer.plan.critical == ("T1", "T2", "T4")
    assert {each.task: each.slack_seconds for each in answer.plan.placements}["T1"] == 0


def test_nine_hours_and_the_transfers_are_on_time() -> None:
    """The deadline to the second is kept."""
    answer = solve(four("10 GB", "direct", "forbidden", "2026-11-23T17:00:11"), PATIENCE_SECONDS)
    assert (answer.verdict, answer.plan.makespan_seconds) == ("on_time", answer.problem.deadline_seconds)
