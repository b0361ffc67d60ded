"""GET and PUT /v1/prices: an admin reads the price file and puts another in its place; the audit says who."""

import time
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from analyzer.errors import LedgerError, StaleError
from analyzer.interfaces.api.parameters import refusals
from analyzer.prices.price_file import MAX_BYTES, PriceFile, PriceFileState
from analyzer.settings.settings import Settings
from collector.problem import problem_response
from collector.registry.audit import AuditEntry
from collector.registry.roles import Principal

_PATH = "/v1/prices"
_TOML = "application/toml"
_NONE = "no price file is named here: set prices of [analyzer], and restart the server"
_DOCUMENTED = {_TOML: {"schema": {"type": "string"}}}
_PUT: dict[str, Any] = {
    "requestBody": {"required": True, "content": _DOCUMENTED},
    "parameters": [{"name": "If-Match", "in": "header", "required": True, "schema": {"type": "string"}}],
}


def add_prices(app: FastAPI, settings: Settings) -> None:
    """Add the two routes."""
    kept = None if settings.prices is None else PriceFile(settings.prices, settings.currency)

    @app.get(_PATH, response_class=Response, responses={200: {"content": _DOCUMENTED}, **refusals(400, 409)})
    def prices() -> Response:
        """Return the price file; its ETag is what PUT asks for."""
        return problem_response(HTTPStatus.CONFLICT, _NONE) if kept is None else _answer(kept.told())

    @app.put(
        _PATH,
        response_class=Response,
        responses={200: {"content": _DOCUMENTED}, **refusals(400, 409, 412, 413, 415, 428)},
        openapi_extra=_PUT,
    )
    async def put_prices(request: Request) -> Response:
        """Put another price file in the place of the one whose ETag If-Match names; hours are priced anew from it."""
        if kept is None:
            return problem_response(HTTPStatus.CONFLICT, _NONE)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TOML:
            return problem_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send the file as Content-Type: {_TOML}")
        if (tag := request.headers.get("if-match", "").strip().strip('"')) == "":
            sentence = "say with If-Match which prices are to be replaced: the ETag of GET"
            return problem_response(HTTPStatus.PRECONDITION_REQUIRED, sentence)
        content = await _content(request)
        if content is None:
            sentence = f"a price file has at most {MAX_BYTES:,} bytes"
            return problem_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
        return await run_in_threadpool(_put, app, kept, content, tag, request.scope["principal"])


def _put(app: FastAPI, kept: PriceFile, content: bytes, tag: str, who: Principal) -> Response:
    """Write it down first: an entry of a change that then failed is better than a change that nobody made."""

    def noted(now: PriceFileState, then: PriceFileState) -> None:
        detail = f"from version {now.version} to {then.version}"
        entry = AuditEntry(time.time_ns() // 1000, "change", who.id, "prices", kept.path.name, detail)
        app.state.access.registry.audit.add([entry])

    try:
        return _answer(kept.put(content, tag, noted))
    except StaleError as error:
        return problem_response(HTTPStatus.PRECONDITION_FAILED, str(error))
    except LedgerError as error:
        return problem_response(HTTPStatus.CONFLICT, str(error))


async def _content(request: Request) -> bytes | None:
    """Return the body, or None where it is too large; no more of it is kept then."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BYTES:
            return None
    return content


def _answer(told: PriceFileState) -> Response:
    headers = {"ETag": f'"{told.tag}"', "X-Price-Version": told.version, "Cache-Control": "no-store"}
    return Response(told.content, media_type=_TOML, headers=headers)
