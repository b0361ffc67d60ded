"""A plan as one self-contained page, without scripts: the chart, and all of its figures as tables."""

from analyzer.planning.drawing import chart
from analyzer.planning.facts import PlanFacts
from analyzer.planning.problem import MEDIA
from analyzer.planning.sentence import sentence
from analyzer.planning.tables import (
    MEDIUM_HEADS,
    change_rows,
    compared_rows,
    ledger_rows,
    moved_rows,
    placed_rows,
    unjudged_rows,
    why_words,
)
from analyzer.report.templating import environment
from analyzer.report.words import UNKNOWN, counted, moment, plain

TEMPLATE = "plan.html"


def plan_html(facts: PlanFacts) -> str:
    """Return the page."""
    return environment().get_template(TEMPLATE).render(view(facts))


def view(facts: PlanFacts) -> dict[str, object]:
    """Return everything that the template prints, rounded and in words."""
    rows = placed_rows(facts)
    told = [f"{row.task} on {row.node}, {row.start} to {row.end}" for row in rows]
    drawn = chart(facts, told)
    compared = compared_rows(facts)
    return {
        "title": f"Plan {plain(facts.title)}",
        "of": f"{counted(len(facts.tasks), 'task')}, {counted(facts.nodes, 'node')}",
        "begins": f"{moment(facts.start_at, facts.timezone)}, {facts.timezone}",
        "deadline": None if facts.deadline_at is None else moment(facts.deadline_at, facts.timezone),
        "verdict": facts.verdict,
        "answer": sentence(facts),
        "chart": drawn,
        "rows": rows,
        "has_data": any(strip.data for strip in drawn.strips),
        "has_slack": any(strip.slack for strip in drawn.strips),
        "changes": change_rows(facts),
        "moved": moved_rows(facts),
        "media": [MEDIUM_HEADS[medium] for medium in MEDIA],
        "compared": compared,
        "has_cost": any(row.cost not in ("", UNKNOWN) for row in compared),
        "why": why_words(facts),
        "ledger": ledger_rows(facts),
        "unjudged": unjudged_rows(facts),
    }
