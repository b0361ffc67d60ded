"""The JSON schema of what dataclasses say, made from their types and docstrings."""

from dataclasses import is_dataclass
from inspect import getdoc
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

INTEGER_BITS = 63  # with a sign: what a column and most programs hold
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


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
    return {"type": _TYPES[kind], **bounds}
