"""A plan on a terminal, as a page and as JSON: as they were looked at, within their width, and broken by no name."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyzer.capacity.planner.facts import PlanContext, PlanFacts, plan_facts
from analyzer.capacity.planner.from_ledger import LeftOut
from analyzer.capacity.planner.simulation import simulate
from analyzer.capacity.planner.tables import sentence, unjudged_rows
from analyzer.capacity.planner.task_file import read_tasks
from analyzer.capacity.planner.text import TASKS_SHOWN, axis, plan_html, plan_json, plan_text
from analyzer.text.layout import TextLayout, paint
from analyzer.text.words import NO_BREAK
from bench.published_schemas import plan_schema
from tests.analyzer.capacity.planner_answers import answered, impossible, of_ledger, on_time
from tests.analyzer.capacity.planner_example import HOUR
from tests.analyzer.charts.without_scripts import without_scripts

PUBLISHED = Path(__file__).parents[3] / "docs" / "plan.schema.json"
HOSTILE = "</title><script>alert(1)</script>\"'&{{ 7*7 }}\x1b[31m" + "x" * 200
SECOND_US = 1_000_000
VIEWS: dict[str, Callable[[], PlanFacts]] = {"on_time": on_time, "impossible": impossible, "of_ledger": of_ledger}


def hostile() -> PlanFacts:
    """Return a plan whose every name is an attack, and longer than any column."""
    facts = on_time()
    moved = tuple(replace(one, before=HOSTILE, after=HOSTILE, from_node=HOSTILE) for one in facts.transfers)
    tasks = tuple(replace(one, task=HOSTILE, node=HOSTILE, rack=HOSTILE, group=HOSTILE) for one in facts.tasks)
    changes = tuple(replace(one, task=HOSTILE, from_node=HOSTILE, to_node=HOSTILE) for one in facts.changes)
    left_out = (LeftOut(HOSTILE, f"held by {HOSTILE}"),)
    return replace(facts, title=HOSTILE, tasks=tasks, transfers=moved, changes=changes, left_out=left_out)


@pytest.mark.parametrize("name", VIEWS)
def test_the_views_are_as_they_were_looked_at(name: str, golden: Callable[[str, str], None]) -> None:
    """A pipe's and a terminal's characters, the page, and the exact figures."""
    facts = VIEWS[name]()
    golden(f"planning/{name}.txt", plan_text(facts, TextLayout(80, ascii=True)))
    golden(f"planning/{name}_terminal.txt", plan_text(facts, TextLayout(80)))
    golden(f"planning/{name}.html", without_scripts(plan_html(facts)))
    golden(f"planning/{name}.json", plan_json(facts))


@pytest.mark.parametrize("width", [64, 80, 120])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_no_line_is_wider_than_its_paper(width: int, is_ascii: bool) -> None:
    """Whatever things are called: a wrapped chart cannot be read."""
    for facts in (hostile(), *(made() for made in VIEWS.values())):
        lines = plan_text(facts, TextLayout(width, is_ascii)).splitlines()
        assert max(map(len, lines)) <= width
        assert "\x1b" not in "".join(lines)


def test_a_plan_of_a_thousand_tasks_fits_a_screen_and_says_what_is_left_out() -> None:
    """A chart is bounded; the page has all of it."""
    facts = on_time()
    more = [replace(one, task=f"{one.task}-{number}") for number in range(249) for one in facts.tasks]
    many = replace(facts, tasks=(*facts.tasks, *more))
    text = plan_text(many, TextLayout(80, ascii=True))
    assert f"  and {1000 - TASKS_SHOWN} more tasks" in text
    assert len(text.splitlines()) < TASKS_SHOWN + 50
    assert plan_text(many, TextLayout(80, ascii=True), top=5).count("gpuA") < text.count("gpuA")


def test_the_chart_shows_each_task_where_it_runs() -> None:
    """One after the other where one waits for the other, and the deadline to the right of all."""
    rows = {
        line[2:4]: line
        for line in plan_text(on_time(), TextLayout(80, ascii=True)).splitlines()
        if re.match("  T.  +.*Fri", line)
    }
    assert rows["T1"].index("#") < rows["T2"].index("#") < rows["T4"].index("#")
    assert rows["T3"].index("=") == rows["T1"].index("#")
    assert len({line.index("!") for line in rows.values()}) == 1


def test_colour_is_never_all_that_tells() -> None:
    """What decides the end has another character, and is named in the legend."""
    text = plan_text(on_time(), TextLayout(80))
    assert re.sub(r"\x1b\[\d+m", "", paint(text)) == text
    assert {"▓", "░"} <= set(text)


def test_the_page_runs_its_chart_alone_loads_nothing_and_no_name_breaks_it() -> None:
    """It goes by mail and into tickets."""
    html = without_scripts(plan_html(hostile()))
    assert re.findall("<script[^>]*>", html) == ['<script type="application/json" id="plan-gantt-data">']
    assert "\x1b" not in html
    assert html.count("<title>gpuledger") == html.count("</title>") - html.count("<title>") + 1
    for each in (html, without_scripts(plan_html(of_ledger()))):
        assert not re.search(r"(src|href)=|url\((?!#)|@import|https?://", each)


def test_the_page_has_the_figures_of_the_chart_as_a_table() -> None:
    """Who cannot see the chart reads the table; both come from the same rows."""
    html = plan_html(on_time())
    for told in ("Fri 06:00", "Fri 15:00", "decides the end", "rack network", "14 h 00 min 20 s"):
        assert told in html.replace(NO_BREAK, " ")


def test_all_three_say_the_same_sentence() -> None:
    """One template; a page that promises more than the terminal would be another product."""
    facts = on_time()
    words = sentence(facts).replace(NO_BREAK, " ").split()
    assert json.loads(plan_json(facts))["sentence"].split() == words
    assert " ".join(words) in " ".join(plan_text(facts, TextLayout(80)).split())
    assert " ".join(words) in " ".join(plan_html(facts).replace(NO_BREAK, " ").split())


def test_the_published_schema_is_the_one_of_what_is_written(request: pytest.FixtureRequest) -> None:
    """Made from the dataclasses; each of the examples is as it says, and one with a text for a figure is not."""
    if request.config.getoption("--update-golden"):
        PUBLISHED.write_text(plan_schema())
    assert PUBLISHED.read_text() == plan_schema()
    validator = jsonschema_rs.validator_for(json.loads(plan_schema()))
    for made in VIEWS.values():
        text = plan_json(made())
        assert validator.is_valid(json.loads(text))
        assert not validator.is_valid(json.loads(text.replace('"start_at": 1', '"start_at": "1" , "x": 1', 1)))


@given(
    st.integers(1, 3_000_000),
    st.one_of(st.none(), st.integers(1, 6_000_000)),
    st.integers(0, 400 * 86_400),
    st.integers(1, 8),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Pacific/Auckland"]),
)
def test_an_axis_holds_the_plan_in_equal_steps(
    seconds: int, deadline: int | None, later: int, most: int, zone: str
) -> None:
    """From a second to a month, over changes of the clock, and with the deadline only where it is near."""
    facts = on_time()
    start = facts.start_at + later * SECOND_US
    end = start + seconds * SECOND_US
    due = None if deadline is None else start + deadline * SECOND_US
    drawn = axis(replace(facts, start_at=start, end_at=end, deadline_at=due, timezone=zone), most)
    assert drawn.start <= start <= end <= drawn.end
    assert len({after.at - before.at for before, after in zip(drawn.ticks, drawn.ticks[1:], strict=False)}) == 1
    assert 1 <= len(drawn.ticks) - 1 <= most
    assert drawn.deadline_at in (None, due)
    assert (drawn.place(start), drawn.place(drawn.end)) >= (0.0, 1.0) or 0 <= drawn.place(start) <= 1


def test_a_deadline_that_is_far_away_is_told_and_not_drawn() -> None:
    """It would squeeze the plan into a corner."""
    facts = on_time()
    far = replace(facts, deadline_at=facts.start_at + 90 * HOUR * SECOND_US)
    assert axis(far, 6).deadline_at is None
    text = plan_text(far, TextLayout(80))
    assert "deadline" in text
    assert "· slack" not in text


def test_what_decides_the_end_is_never_left_out() -> None:
    """Of a thousand tasks the few that matter must be among those that are shown."""
    facts = on_time()
    others = tuple(replace(fact, is_critical=False) for fact in facts.tasks * 20)
    text = plan_text(replace(facts, tasks=(*others, *facts.tasks)), TextLayout(80), top=4)
    assert [line[2:4] for line in text.splitlines() if "▓" in line and "decides" not in line] == ["T1", "T2", "T4"]


def test_an_array_is_one_line() -> None:
    """From its first start to its last end; what it hands on is one line each way. The JSON has each of its tasks."""
    file = Path(__file__).with_name("planner_four_tasks.yaml").read_text("utf-8")
    file = file.replace("  T1: {", "  T1: {count: 3, ").replace("2 h,", "{p10: 1 h, p50: 2 h, p90: 3 h},")
    problem = read_tasks(file, 0).problem()
    answer = answered(problem)
    facts = plan_facts(answer, simulate(problem, answer.plan, draws=9), PlanContext("jobs.yaml"))
    text = plan_text(facts, TextLayout(80, ascii=True))
    assert text.count("  T1 x 3 ") == 2
    assert "T1[" not in text
    assert "duration of T1, T3, T4: give" in dict(unjudged_rows(facts))["spread"]
    assert "6 tasks, 4 nodes" in text
    assert [one["task"] for one in json.loads(plan_json(facts))["tasks"]].count("T1[2]") == 1
