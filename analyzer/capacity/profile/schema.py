"""The JSON schema of a profile's file, made from its dataclasses; docs/profile.schema.json is this text."""

import json
from dataclasses import is_dataclass
from inspect import getdoc
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from analyzer.capacity.profile.facts import SCHEMA, CapacityProfile
from analyzer.capacity.profile.signature import ALGORITHM, Signature
from analyzer.capacity.profile.spelling import INTEGER_BITS

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def schema_text() -> str:
    """Return the schema of the file: a profile and its signature, null where nobody signed it."""
    parts: dict[str, Any] = {}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A capacity profile of gpuledger",
        "description": "Money is in millionths of the currency, GPU time in milliseconds, moments in microseconds UTC.",
        "type": "object",
        "properties": {
            "profile": _of(CapacityProfile, parts),
            "signature": {"anyOf": [_of(Signature, parts), {"type": "null"}]},
        },
        "required": ["profile", "signature"],
        "additionalProperties": False,
        "$defs": parts,
    }
    parts["CapacityProfile"]["properties"]["schema"] = {"const": SCHEMA}
    parts["Signature"]["properties"]["algorithm"] = {"const": ALGORITHM}
    return json.dumps(document, indent=2) + "\n"


def _of(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - the kind decides
    if is_dataclass(kind):
        name = getattr(kind, "__name__", "")
        if name not in parts:
            parts[name] = {}
            known = get_type_hints(kind)
            parts[name] |= {
                "type": "object",
                "description": " ".join((getdoc(kind) or "").split()),
                "properties": {field: _of(inner, parts) for field, inner in known.items()},
                "required": list(known),
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{name}"}
    origin = get_origin(kind)
    if origin is UnionType:
        inner = next(each for each in get_args(kind) if each is not NoneType)
        return {"anyOf": [_of(inner, parts), {"type": "null"}]}
    if origin is tuple:
        return {"type": "array", "items": _of(get_args(kind)[0], parts)}
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    bounds = {"minimum": 1 - 2**INTEGER_BITS, "maximum": 2**INTEGER_BITS - 1} if kind is int else {}
    return {"type": _TYPES[kind], **bounds}
