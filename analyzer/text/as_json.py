"""Reports as JSON: exact integers, a schema name and a version (docs/json.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from analyzer.period import Period, iso


def _without_defaults(schema: dict[str, Any]) -> None:
    for field in schema["properties"].values():
        field.pop("default", None)


# Of a dataclass, as `__pydantic_config__`: a field with a default stands in every document all the same, and `from_` is
# "from" there.
WHOLE = ConfigDict(
    serialize_by_alias=True,
    json_schema_serialization_defaults_required=True,
    json_schema_extra=_without_defaults,
)

Micros = Annotated[int, Field(description="Microseconds since 1970, UTC.")]
Iso = Annotated[str, Field(description="The same instant, ISO 8601, UTC.", json_schema_extra={"format": "date-time"})]
Milliseconds = Annotated[int, Field(description="GPU time in milliseconds.")]
CostMicros = Annotated[int, Field(description="Millionths of the currency.")]


Name = Annotated[str, Field(description="A name that others chose: a run's, a host's, a GPU's, a team's, a label.")]
Sentence = Annotated[str, Field(description="A sentence of ours, with such names in it.")]


VERSION = 1  # raised when a field changes its meaning or goes; new fields do not raise it
NAMES = {"klass": "class", "from_": "from", "slice_": "slice"}


@dataclass(frozen=True, slots=True)
class SpanData:
    """A span of whole hours, half-open: `end` is the first instant that does not belong to it; microseconds UTC."""

    label: str
    timezone: str
    start: int
    start_iso: str
    end: int
    end_iso: str


def as_json(schema: str, report: object, head: Mapping[str, object] | None = None) -> str:
    """Return a report as one JSON object: schema and version, then `head`, then the report's own fields.

    Times are microseconds UTC, GPU time milliseconds, money millionths of `currency`.
    """
    own = plain_data(report)
    if isinstance(report, BaseModel) and "schema" in own:  # a document: it has all of that already
        return json.dumps(own, indent=2, ensure_ascii=False) + "\n"
    if not isinstance(own, dict) or own.keys() & {"schema", "version"}:
        raise AssertionError(f"BUG: the JSON of {schema} is an object whose schema and version are written here")
    document = {"schema": f"gpuledger/{schema}", "version": VERSION, **plain_data(dict(head or {})), **own}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def plain_data(value: object) -> Any:  # noqa: ANN401 - whatever JSON can say
    """Return dataclasses as objects, tuples as lists; None stays null."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Period):
        value = period_data(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {NAMES.get(field.name, field.name): plain_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, dict):
        return {key: plain_data(item) for key, item in value.items()}
    return value


def period_data(period: Period) -> SpanData:
    """Return a period as JSON has it everywhere."""
    return SpanData(period.label, period.timezone, period.start, iso(period.start), period.end, iso(period.end))
