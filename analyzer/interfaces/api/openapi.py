"""The OpenAPI document of everything that the server answers over HTTP as data."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from analyzer.interfaces.api.parameters import Problem, refusals
from analyzer.interfaces.api.writing import BINARY, ENROL
from collector.access.gate import endpoint_of
from collector.registry.roles import Right

_ABOUT = """Readings of the ledger: every second of every GPU that the fleet owns, booked to one state, with a cause, a
holder and a price.

Times are integer microseconds UTC, and ISO 8601 beside them under `…_iso`. GPU time is integer milliseconds, money
integer millionths of `currency`. null is unknown, and never 0. `display` is rounded so that every column adds up.

Answers bear an ETag: with If-None-Match, 304 says that nothing has changed. Errors are application/problem+json.

Whoever asks shows a key. A server that has none answers to loopback alone, and asks nobody.

Telemetry comes in through the addresses under `x-binary-paths`, whose bodies no JSON schema describes."""
_HEALTH = ("/healthz", "/readyz")
_KEY = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key of `gpuledger admin access add`, or a token of the settings, also as Basic's password.",
}
_ANY: dict[str, Any] = {"application/json": {"schema": {}}}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application's routes."""
    made = get_openapi(title="gpuledger", version="1", description=_ABOUT, routes=app.routes)
    there = {getattr(route, "path", None) for route in app.routes}
    made["paths"] |= {path: item for path, item in ENROL.items() if path in there}
    made["x-binary-paths"] = {path: item for path, item in BINARY.items() if path in there}
    for path, method, operation in _operations(made["paths"]):
        _refuses_with_problems(path, operation)
        if endpoint_of(method.upper(), path).right is Right.OPEN:
            operation["security"] = []
    schemas = {
        name: schema
        for name, schema in made.get("components", {}).get("schemas", {}).items()
        if name not in ("HTTPValidationError", "ValidationError")  # the framework's own, which nobody is answered with
    }
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    schemas |= problem.pop("$defs", {}) | {"Problem": problem}
    made["components"] = {"schemas": dict(sorted(schemas.items())), "securitySchemes": {"key": _KEY}}
    made["security"] = [{"key": []}]
    return made


def _operations(paths: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in paths.items():
        for method, operation in item.items():
            yield path, method, operation


def _refuses_with_problems(path: str, operation: dict[str, Any]) -> None:
    """Say of every operation how it refuses: whoever asks may be unknown, and a parameter wrong."""
    answers = operation["responses"]
    if path in _HEALTH:
        answers["503"] = {"description": "It is not.", "content": _ANY}
        return
    usual = (401, 403, 500, 503, *((422,) if "422" in answers else ()))
    described = {str(status): answer for status, answer in refusals(*usual).items()}
    for status, answer in described.items():
        if "application/problem+json" not in answers.get(status, {}).get("content", {}):
            answers[status] = answer
    for status, answer in answers.items():
        if status >= "4" and "content" not in answer:
            answer["content"] = described["500"]["content"]
