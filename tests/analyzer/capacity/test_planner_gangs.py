"""Tasks on several nodes at once, of several sizes, with licenses, and nodes that are away: planned, told, checked."""

import json

import pytest

from analyzer.capacity.planner.facts import PlanContext, plan_facts
from analyzer.capacity.planner.plan import Plan, PlanAnswer
from analyzer.capacity.planner.problem import Problem, ProblemError, TaskFileError
from analyzer.capacity.planner.proposal import Placed, Proposal, read_proposal
from analyzer.capacity.planner.simulation import simulate
from analyzer.capacity.planner.solve import solve
from analyzer.capacity.planner.task_file import read_tasks
from analyzer.capacity.planner.text import plan_html, plan_json, plan_text
from analyzer.capacity.planner.validator import validate
from analyzer.text.layout import TextLayout
from bench.plans.proposed import proposal_of
from tests.waiting import PATIENCE_SECONDS

HOUR = 3600
GANG = """
start: 2026-11-27T05:00
nodes:
  a: {cpus: 64, memory: 1 TB, gpus: 8, hbm: 80 GB}
  b: {cpus: 64, memory: 1 TB, gpus: 8, hbm: 80 GB}
  c: {cpus: 64, memory: 1 TB, gpus: 8, hbm: 80 GB}
tasks:
  one: {cpus: 4, memory: 16 GB, gpu: 1, duration: 10 h}
  two: {cpus: 4, memory: 16 GB, gpu: 1, duration: 10 h}
  train: {cpus: 64, memory: 128 GB, gpu: 16, duration: 6 h}
"""
MAINTENANCE = """
start: 2026-11-30T12:00
finish_by: 2026-12-01T12:00
nodes:
  n1: {cpus: 28, memory: 120 GB, gpus: 4, hbm: 80 GB, away: [{from: Tuesday 09:00, until: Tuesday 17:00}]}
tasks:
  job: {cpus: 28, memory: 110 GB, gpu: 4, duration: 20 h}
"""
RACKS = """
start: 2026-11-27T05:00
nodes:
  a1: {cpus: 64, memory: 1 TB, gpus: 8, rack: a, block: x}
  b1: {cpus: 64, memory: 1 TB, gpus: 8, rack: b, block: x}
  b2: {cpus: 64, memory: 1 TB, gpus: 8, rack: b, block: x}
  c1: {cpus: 64, memory: 1 TB, gpus: 8, rack: c, block: y}
tasks:
  train: {cpus: 64, memory: 128 GB, gpu: 16, duration: 6 h}
"""


def problem_of(text: str, *changes: tuple[str, str]) -> Problem:
    """Return the problem of a file with these changes."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return read_tasks(text, 0).problem()


def solved(problem: Problem) -> PlanAnswer:
    """Return the answer, whose plans all hold."""
    answer = solve(problem, PATIENCE_SECONDS)
    for plan in (answer.plan, *answer.compared):
        assert {each.rule for each in validate(problem, proposal_of(plan)).broken} <= {"deadline"}
    return answer


def where(plan: Plan, task: str) -> tuple[set[str], int, int]:
    """Return the nodes of a task, when it starts and for how long it runs."""
    placed = plan.by_task[task]
    return set(placed.nodes), placed.start_seconds, placed.end_seconds - placed.start_seconds


def test_sixteen_gpus_on_nodes_of_eight_are_two_whole_nodes_at_once() -> None:
    """The two small tasks share the third: nothing waits for anything."""
    answer = solved(problem_of(GANG))
    nodes, start, seconds = where(answer.plan, "train")
    assert (len(nodes), start, seconds) == (2, 0, 6 * HOUR)
    assert answer.plan.makespan_seconds == 10 * HOUR
    assert answer.plan.is_optimal
    assert not nodes & (where(answer.plan, "one")[0] | where(answer.plan, "two")[0])


def test_a_gang_is_told_with_all_of_its_nodes() -> None:
    """How many more on the terminal and the page; their names and its GPUs in the JSON."""
    answer = solved(problem_of(GANG))
    facts = plan_facts(answer, simulate(answer.problem, answer.plan), PlanContext("jobs.yaml"))
    placed = answer.plan.by_task["train"]
    assert f"{placed.node} + 1 " in plan_text(facts, TextLayout(80, ascii=True))
    assert f"{placed.node} + 1" in plan_html(facts)
    train = next(one for one in json.loads(plan_json(facts))["tasks"] if one["task"] == "train")
    assert (train["node"], train["beside"], train["gpus_permille"]) == (placed.node, list(placed.beside), 16_000)


@pytest.mark.parametrize(
    ("said", "nodes", "hours"),
    [
        ("", {"b1", "b2"}, 6.0),
        (", crossing: {racks: 1.5}", {"b1", "b2"}, 6.0),
        (", within: rack", {"b1", "b2"}, 6.0),
        (", within: block", {"b1", "b2"}, 6.0),
        (", hosts: 3, gpu: 24, crossing: {racks: 1.1, blocks: 1.5}", {"a1", "b1", "b2"}, 6.6),
        (", hosts: 4, gpu: 32, crossing: {racks: 1.1, blocks: 1.5}", {"a1", "b1", "b2", "c1"}, 9.0),
        (", hosts: 4, gpu: 4", {"a1", "b1", "b2", "c1"}, 6.0),
        (", hosts: 1, gpu: 8, node: c1", {"c1"}, 6.0),
    ],
)
def test_a_gang_is_where_it_is_to_be_and_pays_for_what_it_crosses(said: str, nodes: set[str], hours: float) -> None:
    """Within a rack, a block, or anywhere at the measured cost."""
    file = RACKS.replace("gpu: 16, ", "") if "gpu:" in said else RACKS
    answer = solved(problem_of(file, (", duration: 6 h", f", duration: 6 h{said}")))
    assert where(answer.plan, "train") == (nodes, 0, round(hours * HOUR))


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("gpu: 48", "needs 6 nodes of 8 GPUs at once, and of one kind there are 4"),
        (
            "gpu: 24, within: rack",
            "needs 3 nodes of 8 GPUs in one rack at once, and of one kind there are 4, in several",
        ),
        ("gpu: 17", "has 8 GPUs, not 17"),
        ("gpu: 16, hosts: 3", "its 16 GPUs are not whole on each of 3 hosts"),
        ("gpu: 16, crossing: {blocks: 1.2, racks: 1.3}", "is faster across racks or blocks than within one"),
        ("gpu: 16, crossing: {rack: 1.2}", "crossing must be how much longer it takes"),
        ("gpu: 16, within: group", "within must be rack or block"),
        ("gpu: {8: 3 h, 16: 2 h}, hosts: 0", "hosts must be 1 to 10,000"),
        ("gpu: {8: 3 h}", "gpu says how long it takes with each number of GPUs; take duration out"),
    ],
)
def test_a_gang_that_cannot_be_is_refused_with_what_it_lacks(said: str, sentence: str) -> None:
    """The property that lacks, and the way out."""
    with pytest.raises((ProblemError, TaskFileError), match=sentence):
        problem_of(RACKS, ("gpu: 16", said))


def test_kinds_are_not_mixed_in_a_gang() -> None:
    """One slow node would hold up all: 16 GPUs are two H100 nodes or two A100 nodes, in the time of each."""
    said = (("a1: {", "a1: {sku: H100, "), ("b1: {", "b1: {sku: A100, "), ("b2: {", "b2: {sku: A100, "))
    slow = problem_of(
        RACKS, *said, ("c1: {", "c1: {sku: H100, "), ("duration: 6 h", "duration: {H100: 6 h, A100: 15 h}")
    )
    assert where(solved(slow).plan, "train") == ({"a1", "c1"}, 0, 6 * HOUR)
    with pytest.raises(ProblemError, match="needs 2 nodes of 8 GPUs at once, and of one kind there are 1"):
        problem_of(RACKS, *said[:1], ("b1: {", "b1: {sku: A100, "), ("b2: {", "b2: {sku: L4, "))


def test_an_elastic_task_takes_the_size_with_which_all_is_done_first() -> None:
    """Alone it takes all four nodes; beside a gang that holds two of them it waits for none of them."""
    elastic = "{8: 24 h, 16: 13 h, 32: 7 h}"
    alone = solved(problem_of(RACKS, ("gpu: 16, duration: 6 h", f"gpu: {elastic}")))
    assert where(alone.plan, "train")[2] == 7 * HOUR
    assert alone.plan.by_task["train"].gpus == 32
    both = problem_of(
        RACKS,
        ("gpu: 16, duration: 6 h}", f"gpu: {elastic}}}\n  long: {{cpus: 8, memory: 8 GB, gpu: 16, duration: 13 h}}"),
    )
    answer = solved(both)
    assert answer.plan.makespan_seconds == 13 * HOUR
    assert where(answer.plan, "train")[0].isdisjoint(where(answer.plan, "long")[0])


def test_a_job_that_ends_before_its_node_goes_away_is_on_time() -> None:
    """The maintenance is no work: it does not move, and is not the plan's end."""
    answer = solved(problem_of(MAINTENANCE))
    assert (answer.verdict, answer.plan.makespan_seconds) == ("on_time", 20 * HOUR)
    assert [each.task for each in answer.plan.placements] == ["job"]


@pytest.mark.parametrize(("hours", "verdict", "end"), [(21, "on_time", 21), (22, "impossible", 29 + 22)])
def test_a_job_that_would_run_into_it_waits_until_it_is_over(hours: int, verdict: str, end: int) -> None:
    """21 hours end as it begins; one more is proven to be late, without a search."""
    answer = solved(problem_of(MAINTENANCE, ("20 h", f"{hours} h")))
    assert (answer.verdict, answer.earliest_seconds, answer.plan.makespan_seconds) == (verdict, end * HOUR, end * HOUR)


def test_draws_that_would_run_into_it_wait_too() -> None:
    """Half of them end before, the others after it: in time are as many as end before it."""
    problem = problem_of(MAINTENANCE, ("20 h", "{p10: 18 h, p50: 21 h, p90: 22 h}"))
    outlook = simulate(problem, solved(problem).plan, draws=2000)
    assert outlook.on_time_ratio == pytest.approx(0.5, abs=0.03)
    assert outlook.p90_seconds > (29 + 21) * HOUR


@pytest.mark.parametrize(
    ("away", "sentence"),
    [
        ("{from: Tuesday 17:00, until: 2026-12-01T09:00}", "away of 'Tuesday 17:00' ends before it begins|ends before"),
        ("[{from: Tuesday 17:00}]", "away must be a list of {from: Tuesday 09:00, until: Tuesday 17:00}"),
        ("{from: in 6 h, until: in 4 h}", "away of in 6 h ends before it begins"),
        ("[{from: soon, until: Tuesday 17:00}]", "away of from must be a moment"),
        ("yes", "away must be a list of"),
    ],
)
def test_a_span_that_is_none_is_refused(away: str, sentence: str) -> None:
    """With the key, and what it should be."""
    with pytest.raises(TaskFileError, match=sentence):
        problem_of(MAINTENANCE, ("[{from: Tuesday 09:00, until: Tuesday 17:00}]", away))


def test_hours_from_now_are_so_at_both_ends() -> None:
    """From in 4 h until in 6 h is two hours, as whoever writes it means."""
    away = "{from: in 4 h, until: in 6 h}"
    problem = problem_of(MAINTENANCE, ("[{from: Tuesday 09:00, until: Tuesday 17:00}]", away))
    assert [node.away for node in problem.nodes if node.away] == [((4 * HOUR, 6 * HOUR),)]


def test_what_has_gone_by_is_no_span() -> None:
    """And `until` counts from `from`: from Friday 18:00 until Monday 08:00 is one weekend."""
    file = MAINTENANCE.replace(
        "[{from: Tuesday 09:00, until: Tuesday 17:00}]", "{from: 2026-11-01T08:00, until: 2026-11-02T08:00}"
    )
    assert read_tasks(file, 0).problem().nodes[0].away == ()
    weekend = MAINTENANCE.replace(
        "from: Tuesday 09:00, until: Tuesday 17:00", "from: Friday 18:00, until: Monday 08:00"
    )
    ((begin, end),) = read_tasks(weekend, 0).problem().nodes[0].away
    assert end - begin == 62 * HOUR


def test_no_more_run_than_there_are_licenses() -> None:
    """Wherever they run; others are not held up."""
    file = GANG.replace("start:", "licenses: {sim: 1}\nstart:").replace(
        "duration: 10 h", "duration: 10 h, licenses: {sim: 1}"
    )
    answer = solved(read_tasks(file, 0).problem())
    assert answer.plan.makespan_seconds == 20 * HOUR
    assert answer.plan.is_optimal
    starts = {each.task: each.start_seconds for each in answer.plan.placements}
    assert sorted((starts["one"], starts["two"])) == [0, 10 * HOUR]
    both = Proposal((Placed("one", "a", 0), Placed("two", "a", 0), Placed("train", "b", 0, beside=("c",))))
    (broken,) = validate(answer.problem, both).broken
    assert (broken.rule, broken.tasks) == ("capacity", ("one", "two"))
    assert "there are 1 of license sim" in broken.text
    with pytest.raises(ProblemError, match="license sim, and licenses does not say how many"):
        read_tasks(file.replace("licenses: {sim: 1}\n", "", 1), 0).problem()


@pytest.mark.parametrize(
    ("nodes", "rule", "says"),
    [
        ('["a", "b"]', None, None),
        ('["a"]', "fit", "runs on 2 of the nodes at once, and is put on 1"),
        ('["a", "b", "c"]', "fit", "runs on 2 of the nodes at once, and is put on 3"),
        ('["a", "a"]', "fit", "one of them twice"),
        ('["a", "nowhere"]', "unknown", "which does not exist"),
    ],
)
def test_a_proposal_names_all_nodes_of_a_gang(nodes: str, rule: str | None, says: str | None) -> None:
    """As JSON; one node alone, or one too many, is told with how many it is."""
    problem = problem_of(GANG)
    others = "".join(f', {{"task": "{name}", "node": "c", "start_seconds": 0}}' for name in ("one", "two"))
    said = f'{{"placements": [{{"task": "train", "nodes": {nodes}, "start_seconds": 36000}}{others}]}}'
    verdict = validate(problem, read_proposal(said))
    assert [each.rule for each in verdict.broken] == ([] if rule is None else [rule])
    assert says is None or says in verdict.broken[0].text


def test_a_gang_fills_every_node_that_it_is_on() -> None:
    """What else runs there at the time is one too many, and a node that is away carries no part of it."""
    problem = problem_of(GANG, ("c: {", "c: {away: {from: in 5 h, until: in 6 h}, "))
    said = Proposal((Placed("one", "b", 0), Placed("two", "b", 0), Placed("train", "a", 0, beside=("c",))))
    assert [(each.rule, each.nodes) for each in validate(problem, said).broken] == [("away", ("c",))]
    said = Proposal((Placed("one", "b", 0), Placed("two", "a", 0), Placed("train", "a", 0, beside=("b",))))
    rules = [(each.rule, each.nodes) for each in validate(problem, said).broken]
    assert rules == [("capacity", ("a",)), ("capacity", ("b",))]
