"""A plan as JSON for programs; its schema is docs/plan.schema.json."""

from analyzer.capacity.planner.facts import PlanFacts
from analyzer.capacity.planner.sentence import sentence
from analyzer.text.as_json import as_json, plain_data
from analyzer.text.words import NO_BREAK

NAME = "plan"


def plan_json(facts: PlanFacts) -> str:
    """Return the plan as JSON: its sentence, and the figures behind it to the second."""
    return as_json(NAME, {"sentence": sentence(facts).replace(NO_BREAK, " "), **plain_data(facts)})
