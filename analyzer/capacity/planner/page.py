"""A plan as one self-contained page: the chart, and all of its figures as tables."""

from collections.abc import Sequence

from agent.wire.units import SECOND_US
from analyzer.capacity.planner.facts import PlanFacts, TaskFact
from analyzer.capacity.planner.problem import MEDIA
from analyzer.capacity.planner.sentence import sentence
from analyzer.capacity.planner.tables import (
    MEDIUM_HEADS,
    PlacedRow,
    change_rows,
    compared_rows,
    ledger_rows,
    moved_rows,
    placed_rows,
    unjudged_rows,
    why_words,
)
from analyzer.capacity.planner.text import Axis, axis
from analyzer.charts.figures import GanttRow, gantt
from analyzer.text.as_json import as_json, plain_data
from analyzer.text.templating import environment
from analyzer.text.words import NO_BREAK, UNKNOWN, counted, moment_words, plain

NAME = "plan"


def plan_json(facts: PlanFacts) -> str:
    """Return the plan as JSON: its sentence, and the figures behind it to the second."""
    return as_json(NAME, {"sentence": sentence(facts).replace(NO_BREAK, " "), **plain_data(facts)})


_TEMPLATE = "plan.html"
_STEPS_MOST = 6  # a label each, and on a phone there is room for no more


def plan_html(facts: PlanFacts) -> str:
    """Return the page."""
    return environment().get_template(_TEMPLATE).render(_view(facts))


def _view(facts: PlanFacts) -> dict[str, object]:
    """Return everything that the template prints, rounded and in words."""
    rows = placed_rows(facts)
    compared = compared_rows(facts)
    return {
        "title": f"Plan {plain(facts.title)}",
        "of": f"{counted(len(facts.tasks), 'task')}, {counted(facts.nodes, 'node')}",
        "begins": f"{moment_words(facts.start_at, facts.timezone)}, {facts.timezone}",
        "deadline": None if facts.deadline_at is None else moment_words(facts.deadline_at, facts.timezone),
        "verdict": facts.verdict,
        "answer": sentence(facts),
        "figure": _figure(facts, rows),
        "rows": rows,
        "changes": change_rows(facts),
        "moved": moved_rows(facts),
        "media": [MEDIUM_HEADS[medium] for medium in MEDIA],
        "compared": compared,
        "has_cost": any(row.cost not in ("", UNKNOWN) for row in compared),
        "why": why_words(facts),
        "ledger": ledger_rows(facts),
        "unjudged": unjudged_rows(facts),
    }


def _figure(facts: PlanFacts, rows: Sequence[PlacedRow]) -> dict[str, object]:
    drawn = axis(facts, _STEPS_MOST)
    ticks = [(_seconds(drawn, tick.at), tick.label) for tick in drawn.ticks]
    told = (f"{row.task} on {row.node}, {row.start} to {row.end}" for row in rows)
    deadline = None if drawn.deadline_at is None else _seconds(drawn, drawn.deadline_at)
    return gantt([_row(fact, words, drawn) for fact, words in zip(facts.tasks, told, strict=True)], ticks, deadline)


def _row(fact: TaskFact, told: str, drawn: Axis) -> GanttRow:
    start, end = _seconds(drawn, fact.start_at), _seconds(drawn, fact.end_at)
    data = (_seconds(drawn, fact.data_from_at), _seconds(drawn, fact.data_until_at))
    slack = (end, end + fact.slack_seconds) if fact.slack_seconds else None
    return GanttRow(
        plain(f"{fact.task} {fact.node}"),
        told,
        fact.is_critical,
        data if data[0] < data[1] else None,
        (start, end),
        slack if drawn.has_slack else None,
    )


def _seconds(drawn: Axis, at: int) -> float:
    return (at - drawn.start) / SECOND_US
