"""Fields that many documents have: what they mean in JSON, and which of them hold what the fleet itself wrote.

A dataclass whose fields are such is its own document: `--json`, /v1 and the assistant's answer print it as it is.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field

# Of a dataclass, as `__pydantic_config__`: a field that has a default stands in every document all the same.
WHOLE = ConfigDict(json_schema_serialization_defaults_required=True)

Micros = Annotated[int, Field(description="Microseconds since 1970, UTC.")]
Iso = Annotated[str, Field(description="The same instant, ISO 8601, UTC.", json_schema_extra={"format": "date-time"})]
Milliseconds = Annotated[int, Field(description="GPU time in milliseconds.")]
CostMicros = Annotated[int, Field(description="Millionths of the currency.")]


@dataclass(frozen=True, slots=True)
class FleetText:
    """Marks text that others chose or that quotes them; an assistant reads at most so many letters of it, as data."""

    letters_most: int


Name = Annotated[str, FleetText(200)]  # a run, a host, a GPU, a team, a label
Sentence = Annotated[str, FleetText(600)]  # ours, with such names in it
