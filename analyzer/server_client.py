"""Ask a running server: one request, one answer, and a sentence where there is none."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from agent.connection import BrokenAnswerError, ask, why
from analyzer.errors import ConfigError, LedgerError, UnansweredError

TOKEN = "GPULEDGER_TOKEN"  # noqa: S105 - the variable's name
_KEY_HINT = f"set {TOKEN} to a key; on the server, gpuledger admin access add --role read --name NAME creates one"
_ANSWER_BYTES = 64 * 2**20
_REFUSAL_BYTES = 4096
_ANSWER_SECONDS, _WHOLE_SECONDS = 60, 600  # until something comes, and for all of it
WRONG_USAGE = "usage"  # the `reason` of a refusal: the same words on a store would be refused as wrong usage
_UNREADABLE = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


def ask_server(server: str, path: str, body: dict[str, object] | None = None) -> str:
    """Return a server's answer to a GET, or to the POST of a body, as a command asks it: with our own token.

    Raises:
        ConfigError: the address is none, or the server says that what was asked is wrong, as a store would have.
        UnansweredError: the server cannot be reached, or refuses.
    """
    try:
        return server_answer(server, path, body)
    except UnansweredError as error:
        if error.reason == WRONG_USAGE or error.status in _UNREADABLE:
            raise ConfigError(error.said or str(error)) from error
        raise


def server_answer(
    server: str, path: str, body: dict[str, object] | None = None, *, authorization: str | None = None
) -> str:
    """Return a server's answer to a GET, or to the POST of a body; None shows the token of our own environment.

    Raises:
        ConfigError: the address is none.
        UnansweredError: the server cannot be reached, or refuses.
    """
    url = f"{server.rstrip('/')}{path}"
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"--server {server} is not an address like http://127.0.0.1:8470")
    headers = {"Content-Type": "application/json"}
    if authorization is None and (token := os.environ.get(TOKEN)):
        if not (token.isascii() and token.isprintable()):
            raise ConfigError(f"{TOKEN} has characters that a key must not contain")
        authorization = f"Bearer {token}"
    if authorization:
        headers["Authorization"] = authorization
    content = None if body is None else json.dumps(body).encode()
    strange = f"{server} is not a gpuledger server: check the port, and http or https"
    try:
        reply = ask(
            url,
            content,
            headers,
            timeout_seconds=_ANSWER_SECONDS,
            whole_seconds=_WHOLE_SECONDS,
            most_bytes=_ANSWER_BYTES,
        )
        if reply.is_success and reply.is_whole:  # a part would be shown as the whole
            return reply.body.decode()
    except (BrokenAnswerError, ValueError) as error:
        raise UnansweredError(strange) from error
    except OSError as error:
        raise UnansweredError(f"{server} does not answer: {why(error)}") from error
    if reply.is_success:
        raise UnansweredError(strange)
    words, reason = _said(reply.body[:_REFUSAL_BYTES].decode(errors="replace"))
    hint = f"; {_KEY_HINT}" if reply.status == HTTPStatus.UNAUTHORIZED else ""
    raise UnansweredError(f"{server} answers {reply.status}: {words}{hint}", reply.status, words, reason)


def ask_server_json(server: str, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
    """Return the JSON object that a server answers with.

    Raises:
        ConfigError, LedgerError: as ask_server() does; also where the answer is no JSON object.
    """
    answer = ask_server(server, path, body)
    try:
        said = json.loads(answer)
    except ValueError as error:
        raise LedgerError(f"{server}{path} is not an answer of a gpuledger server") from error
    if not isinstance(said, dict):
        raise LedgerError(f"{server}{path} is not an answer of a gpuledger server")
    return said


@contextmanager
def of_this_version(server: str) -> Iterator[None]:
    """Say of an answer that lacks what its reader looks for who gave it.

    Raises:
        LedgerError: something was not there, or of another shape.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"{server} answers in an unknown form: it may run another version") from error


def typed(kind: Any, values: object) -> Any:  # noqa: ANN401 - the kind decides
    """Return what a server said as dataclasses, those within others too; what this version does not know is left.

    Raises:
        ValueError: a field is not there, or of another shape: read it within of_this_version().
    """
    from pydantic import TypeAdapter

    return TypeAdapter(kind).validate_python(values)


def zone_of(document: Mapping[str, Any]) -> str:
    """Return the time zone in which the people of the site that answered read times; UTC where an old one is silent."""
    return str(document.get("timezone", "UTC"))


def _said(body: str) -> tuple[str, str]:
    """Return the sentence of a refusal, and its word for programs; nothing where it has none."""
    try:
        problem = json.loads(body)
        return str(problem["detail"]), str(problem.get("reason", ""))
    except (ValueError, TypeError, KeyError, AttributeError):  # a proxy's words, not ours
        return body.strip(), ""
