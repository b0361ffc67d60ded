"""Reports as JSON: exact integers, a schema name and a version (docs/json.md)."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from typing import Any

VERSION = 1  # raised when a field changes its meaning or goes; new fields do not raise it
_NAMES = {"klass": "class", "from_": "from", "slice_": "slice"}


def as_json(schema: str, report: object, head: Mapping[str, object] | None = None) -> str:
    """Return a report as one JSON object: schema and version, then `head`, then the report's own fields.

    Times are microseconds UTC, GPU time milliseconds, money millionths of `currency`.
    """
    own = plain_data(report)
    if not isinstance(own, dict) or own.keys() & {"schema", "version"}:
        raise AssertionError(f"BUG: the JSON of {schema} is an object whose schema and version are written here")
    document = {"schema": f"gpuledger/{schema}", "version": VERSION, **plain_data(dict(head or {})), **own}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def plain_data(value: object) -> Any:  # noqa: ANN401 - whatever JSON can say
    """Return dataclasses as objects, tuples as lists; None stays null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {_NAMES.get(field.name, field.name): plain_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, dict):
        return {key: plain_data(item) for key, item in value.items()}
    return value
