"""Fields that many documents have, and what they mean in JSON.

A dataclass whose fields are such is its own document: `--json`, /v1 and the assistant's answer print it as it is.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field


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
