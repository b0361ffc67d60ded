"""Errors of every HTTP interface as application/problem+json (RFC 9457): one shape, whoever refuses."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

PROBLEM_TYPE = "application/problem+json"
_SHOWN_FAULTS = 20
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def problem(status: int, detail: str, **more: object) -> dict[str, object]:
    """Return the members of a problem: `detail` is the sentence for a person, `more` what a program may read."""
    return {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}


def problem_response(
    status: int, detail: str, headers: Mapping[str, str] | None = None, **more: object
) -> JSONResponse:
    """Return a problem as an answer; it is never kept by anybody on the way."""
    kept = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **(headers or {})}
    return JSONResponse(problem(status, detail, **more), status, kept, PROBLEM_TYPE)


def answer_with_problems(app: FastAPI) -> None:
    """Let an application answer so also where the framework refuses: 404, 405, 413, 422, and 500."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _broken)


def sentences(status: int, **more: object) -> Callable[[Request, Exception], Response]:
    """Return a handler that answers an exception of ours with its own sentence; `more` is as in problem()."""

    def answer(_: Request, error: Exception) -> Response:
        return problem_response(status, str(error), None, **more)

    return answer


def _refused(request: Request, error: Exception) -> Response:
    refusal = cast("HTTPException", error)
    detail = refusal.detail
    if refusal.status_code == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
        detail = f"there is nothing at {request.url.path}"
    if refusal.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_methods(request))
        return problem_response(
            HTTPStatus.METHOD_NOT_ALLOWED, f"{request.url.path} takes {allowed}", {"Allow": allowed}
        )
    return problem_response(refusal.status_code, str(detail), refusal.headers)


def _methods(request: Request) -> list[str]:
    """Return what may be done at an address; the framework names those of the first route alone."""
    routes = request.app.router.routes
    asked = ((method, {**request.scope, "method": method}) for method in _METHODS)
    return [method for method, scope in asked if any(route.matches(scope)[0] is Match.FULL for route in routes)]


def _invalid(_: Request, error: Exception) -> Response:
    found = cast("RequestValidationError", error).errors()
    faults = [_fault(fault) for fault in found if fault["type"] != "none_required"][:_SHOWN_FAULTS]
    faults = faults or [_fault(fault) for fault in found[:_SHOWN_FAULTS]]
    named = "; ".join(f"{fault['name']}: {fault['says']}" for fault in faults[:3])
    return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, named, errors=faults)


def _fault(fault: Mapping[str, object]) -> dict[str, str]:
    where = fault.get("loc")
    parts = [str(part) for part in where] if isinstance(where, (list, tuple)) else []
    name = ".".join(part for part in parts[1:] if "[" not in part)  # without pydantic's function-after[...]
    says = str(fault.get("msg")).removeprefix("Value error, ")
    return {"in": parts[0] if parts else "", "name": name[:200], "says": says[:300]}


def _broken(_: Request, error: Exception) -> Response:
    """Say that it is our mistake, and nothing of what it was: the log has it."""
    return problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, f"BUG: {type(error).__name__}; see the server's log")
