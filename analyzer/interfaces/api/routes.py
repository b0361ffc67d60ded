"""All of the API, put together, and the document that says so."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import JSONResponse, Response

from agent.wire.envelope import CONTENT_TYPE
from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.api.capacity import capacity_routes
from analyzer.interfaces.api.costs import cost_routes
from analyzer.interfaces.api.findings import finding_routes
from analyzer.interfaces.api.fleet import fleet_routes
from analyzer.interfaces.api.invoices import invoice_routes
from analyzer.interfaces.api.ledger import ledger_routes
from analyzer.interfaces.api.parameters import BusyError, MeaninglessError, PeopleError, Problem, WholeError, refusals
from analyzer.interfaces.api.profiles import profile_routes
from analyzer.interfaces.api.recommendations import recommendation_routes
from analyzer.interfaces.api.request_service import RequestService
from analyzer.interfaces.api.runs import run_routes
from analyzer.queries.generation import ByGeneration
from analyzer.recommendations.advise import LossSource
from analyzer.server_client import WRONG_USAGE
from analyzer.settings.settings import Settings
from collector.access.gate import endpoint_of
from collector.errors import RegistryError, StoreError
from collector.problem import answer_with_problems, problem_response, sentences
from collector.registry.roles import Right
from collector.store.session import Session

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
        "Telemetry as agents send it: one zstd frame, docs/spool.md. 200 means that it is durable and counted once. A "
        "refusal has `error` and `reason` in addition to the fields of every problem.",
        CONTENT_TYPE,
        _BINARY,
        {
            200: _json("Accepted; the agent may discard everything up to `sealed_through`.", _TAKEN),
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
_ENROL: dict[str, dict[str, Any]] = {
    "/v1/enrol": _post(
        "Enrol",
        "A new host presents a join token and receives a key of its own.",
        "application/json",
        _object(
            token=_TEXT,
            node={"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,252}$"},
        ),
        {
            201: _json("The key; it is shown only once.", _object(key=_TEXT, node=_TEXT)),
            **_refusals(400, 401, 403, 408, 409, 413, 503),
        },
        "access",
    ),
}


_ABOUT = """The ledger: every second of every GPU that the fleet owns, booked to one state, with a cause, a holder and a
price.

Times are integer microseconds UTC, and ISO 8601 beside them under `…_iso`. GPU time is integer milliseconds, money
integer millionths of `currency`. null is unknown, and never 0. `display` is rounded so that every column adds up.

Answers have an ETag: with If-None-Match, 304 means that nothing has changed. Errors are application/problem+json.

Requests need a key. A server without keys answers loopback only, and asks for none.

Telemetry arrives at the paths under `x-binary-paths`, whose bodies no JSON schema describes."""
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
    made["paths"] |= {path: item for path, item in _ENROL.items() if path in there}
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
        answers["503"] = {"description": "Not healthy, or not ready.", "content": _ANY}
        return
    usual = (401, 403, 500, 503, *((422,) if "422" in answers else ()))
    described = {str(status): answer for status, answer in refusals(*usual).items()}
    for status, answer in described.items():
        if "application/problem+json" not in answers.get(status, {}).get("content", {}):
            answers[status] = answer
    for status, answer in answers.items():
        if status >= "4" and "content" not in answer:
            answer["content"] = described["500"]["content"]


_LOG = logging.getLogger(__name__)


def add_api(
    app: FastAPI,
    open_session: Callable[[], Session],
    settings: Settings,
    loss_source: LossSource | None = None,
    kept: ByGeneration | None = None,
) -> RequestService:
    """Add the API to an application, its document, and its way of refusing; return the desk that pages ask, too.

    `kept` is what is made once for all who read one state of the ledger.
    """
    service = RequestService(open_session, settings, loss_source, kept=kept)
    app.include_router(_api_routes(service), prefix="/v1")

    made: list[dict[str, Any]] = []  # once, when it is first asked for: all routes are there by then

    @app.get("/v1/openapi.json", include_in_schema=False)
    def openapi() -> JSONResponse:
        if not made:
            made.append(document(app))
        return JSONResponse(made[0])

    answer_with_problems(app)
    app.add_exception_handler(ConfigError, sentences(400))
    app.add_exception_handler(PeopleError, sentences(403))
    app.add_exception_handler(WholeError, sentences(403))
    app.add_exception_handler(LedgerError, sentences(404))
    app.add_exception_handler(MeaninglessError, sentences(404, reason=WRONG_USAGE))
    app.add_exception_handler(StoreError, _unreadable)
    app.add_exception_handler(RegistryError, _silent)
    app.add_exception_handler(BusyError, lambda _, error: problem_response(503, str(error), {"Retry-After": "5"}))
    return service


def _unreadable(request: Request, error: Exception) -> Response:
    """Say that the store cannot be read; what it said of its inside is for the log alone."""
    _LOG.error("%s could not be read: %s", request.url.path, error)
    return problem_response(503, "the store is not available now; see the server's log", {"Retry-After": "5"})


def _silent(request: Request, error: Exception) -> Response:
    """Say that the registry cannot be asked; what it said of its inside is for the log alone."""
    _LOG.error("%s could not ask the registry: %s", request.url.path, error)
    return problem_response(503, "the registry is not available now; see the server's log", {"Retry-After": "5"})


def _api_routes(service: RequestService) -> APIRouter:
    """Return all routes below /v1; that of one run comes last, for its id may have slashes."""
    router = APIRouter()
    for routes in (
        profile_routes, ledger_routes, cost_routes, finding_routes, recommendation_routes, fleet_routes,
        invoice_routes, capacity_routes, run_routes,
    ):  # fmt: skip
        router.include_router(routes(service))
    return router
