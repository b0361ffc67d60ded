"""The JSON schemas of a profile's file and of a plan, made from their dataclasses: docs/*.schema.json are these texts.

Tests hold the documents to them; `pytest --update-golden` writes them anew.
"""

import json
from dataclasses import is_dataclass
from inspect import getdoc
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from analyzer.capacity.planner.facts import PlanFacts
from analyzer.capacity.planner.text import NAME
from analyzer.capacity.profile.canonical_json import INTEGER_BITS
from analyzer.capacity.profile.facts import SCHEMA, CapacityProfile
from analyzer.capacity.profile.signature import ALGORITHM, Signature
from analyzer.text.as_json import VERSION

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def profile_schema() -> str:
    """Return the schema of the file: a profile and its signature, null where nobody signed it."""
    parts: dict[str, Any] = {}
    document = {
        "$schema": DIALECT,
        "title": "A capacity profile of gpuledger",
        "description": "Money is in millionths of the currency, GPU time in milliseconds, moments in microseconds UTC.",
        "type": "object",
        "properties": {
            "profile": schema_of(CapacityProfile, parts),
            "signature": {"anyOf": [schema_of(Signature, parts), {"type": "null"}]},
        },
        "required": ["profile", "signature"],
        "additionalProperties": False,
        "$defs": parts,
    }
    parts["CapacityProfile"]["properties"]["schema"] = {"const": SCHEMA}
    parts["Signature"]["properties"]["algorithm"] = {"const": ALGORITHM}
    return json.dumps(document, indent=2) + "\n"


def plan_schema() -> str:
    """Return the schema of a plan's JSON. Fields may be added within a version, so objects are open."""
    parts: dict[str, Any] = {}
    schema_of(PlanFacts, parts)
    for part in parts.values():
        del part["additionalProperties"]
    report = parts.pop(PlanFacts.__name__)
    document = {
        "$schema": DIALECT,
        "title": "A plan of gpuledger",
        "description": "Moments are microseconds UTC, spans seconds, money millionths of the currency; null: unknown.",
        "type": "object",
        "properties": {
            "schema": {"const": f"gpuledger/{NAME}"},
            "version": {"const": VERSION},
            "sentence": {"type": "string"},
            **report["properties"],
        },
        "required": ["schema", "version", "sentence", *report["required"]],
        "$defs": parts,
    }
    return json.dumps(document, indent=2) + "\n"


def schema_of(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - the kind decides
    """Return the schema of one type; each dataclass in it is put into `parts` under its name, and referred to."""
    if is_dataclass(kind):
        name = getattr(kind, "__name__", "")
        if name not in parts:
            parts[name] = {}
            known = get_type_hints(kind)
            parts[name] |= {
                "type": "object",
                "description": " ".join((getdoc(kind) or "").split()),
                "properties": {field: schema_of(inner, parts) for field, inner in known.items()},
                "required": list(known),
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{name}"}
    origin = get_origin(kind)
    if origin is UnionType:
        inner = next(each for each in get_args(kind) if each is not NoneType)
        return {"anyOf": [schema_of(inner, parts), {"type": "null"}]}
    if origin is tuple:
        return {"type": "array", "items": schema_of(get_args(kind)[0], parts)}
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    bounds = {"minimum": 1 - 2**INTEGER_BITS, "maximum": 2**INTEGER_BITS - 1} if kind is int else {}
    return {"type": TYPES[kind], **bounds}
