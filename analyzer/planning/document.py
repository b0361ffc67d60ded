"""A plan as JSON for programs, and the schema of it, made from the dataclasses; docs/plan.schema.json is this text."""

import json
from typing import Any

from analyzer.planning.facts import PlanFacts
from analyzer.planning.sentence import sentence
from analyzer.report.as_json import VERSION, as_json, plain_data
from analyzer.report.dataclass_schema import schema_of
from analyzer.report.words import NO_BREAK

NAME = "plan"


def plan_json(facts: PlanFacts) -> str:
    """Return the plan as JSON: its sentence, and the figures behind it to the second."""
    return as_json(NAME, {"sentence": sentence(facts).replace(NO_BREAK, " "), **plain_data(facts)})


def schema_text() -> str:
    """Return the schema of that JSON. Fields may be added within a version, so objects are open."""
    parts: dict[str, Any] = {}
    schema_of(PlanFacts, parts)
    for part in parts.values():
        del part["additionalProperties"]
    report = parts.pop(PlanFacts.__name__)
    report["properties"] = {"sentence": {"type": "string"}, **report["properties"]}
    report["required"] = ["sentence", *report["required"]]
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plan of gpuledger",
        "description": "Moments are microseconds UTC, spans seconds, money millionths of the currency; null: unknown.",
        "type": "object",
        "properties": {"schema": {"const": f"gpuledger/{NAME}"}, "version": {"const": VERSION}, "report": report},
        "required": ["schema", "version", "report"],
        "$defs": parts,
    }
    return json.dumps(document, indent=2) + "\n"
