"""The JSON schema of a recommendation, as `recommendations --schema` prints it (docs/recommendation.schema.json)."""

import json

from pydantic import TypeAdapter

from analyzer.recommendations.recommendation import Recommendation


def schema_text() -> str:
    """Return the schema of one recommendation as commands and the API write it."""
    schema = TypeAdapter(Recommendation).json_schema(mode="serialization", by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A recommendation of gpuledger"}
    return json.dumps(head | {name: part for name, part in schema.items() if name not in head}, indent=2) + "\n"
