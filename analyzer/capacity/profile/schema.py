"""The JSON schema of a profile's file, made from its dataclasses; docs/profile.schema.json is this text."""

import json
from typing import Any

from analyzer.capacity.profile.facts import SCHEMA, CapacityProfile
from analyzer.capacity.profile.signature import ALGORITHM, Signature
from analyzer.report.dataclass_schema import schema_of


def schema_text() -> str:
    """Return the schema of the file: a profile and its signature, null where nobody signed it."""
    parts: dict[str, Any] = {}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
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
