"""What the OpenAPI document says of the routes that are no framework's: telemetry and keys come in through them."""

from typing import Any

from agent.wire.envelope import CONTENT_TYPE
from analyzer.interfaces.api.parameters import refusals

_BINARY = {"type": "string", "contentMediaType": "application/octet-stream"}


def _post(
    summary: str, about: str, takes: str, schema: dict[str, Any], answers: dict[int | str, Any], tag: str
) -> dict[str, Any]:
    return {
        "post": {
            "tags": [tag],
            "summary": summary,
            "description": about,
            "requestBody": {"required": True, "content": {takes: {"schema": schema}}},
            "responses": {str(status): answer for status, answer in answers.items()},
        }
    }


def _refusals(*statuses: int) -> dict[int | str, Any]:
    return dict(refusals(*statuses))


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_INTEGER, _TEXT = {"type": "integer"}, {"type": "string"}
_TAKEN = _object(sequence=_INTEGER, sealed_through=_INTEGER, server_time=_INTEGER) | {"additionalProperties": True}

BINARY: dict[str, dict[str, Any]] = {
    "/v1/batches": _post(
        "Batches",
        "Telemetry as agents send it: one zstd frame, docs/spool.md. 200 says that it is durable and counts once. A "
        "refusal has `error` and `reason` beside what every problem has.",
        CONTENT_TYPE,
        _BINARY,
        {
            200: _json("It is taken; what may be forgotten is up to `sealed_through`.", _TAKEN),
            **_refusals(400, 401, 403, 408, 409, 413, 415, 421, 422, 426, 429, 503),
        },
        "telemetry",
    ),
    "/api/v1/write": _post(
        "Remote write",
        "Prometheus' remote write 1.0 and 2.0, compressed with snappy.",
        "application/x-protobuf",
        _BINARY,
        {
            204: {"description": "All of it is durable."},
            **_refusals(400, 401, 403, 408, 413, 415, 422, 429, 503),
        },
        "telemetry",
    ),
}
ENROL: dict[str, dict[str, Any]] = {
    "/v1/enrol": _post(
        "Enrol",
        "A new host shows a join token and gets a key of its own.",
        "application/json",
        _object(
            token=_TEXT,
            node={"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,252}$"},
        ),
        {
            201: _json("The key; it is shown this once.", _object(key=_TEXT, node=_TEXT)),
            **_refusals(400, 401, 403, 408, 409, 413, 503),
        },
        "access",
    ),
}
