"""Ask an OpenAI-compatible endpoint for one completion: bounded in time and bytes, one retry, no redirect.

What it says of an error may quote the key that it was shown, so none of that is told on.

Source: https://platform.openai.com/docs/api-reference/chat; vLLM, llama.cpp and Ollama answer in the same shape.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, NoReturn

from agent.wire.bounded import json_said
from analyzer.exchange import host_of, opener
from analyzer.planning.from_text.errors import ModelError
from analyzer.planning.from_text.settings import ModelSettings

ANSWER_BYTES = 512 * 1024
CHUNK_BYTES = 16 * 1024
RETRY_SECONDS = 2.0
ANSWER_TOKENS = 8192  # an endpoint may know a smaller bound
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)  # and 5xx: worth the one retry


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the exchange."""

    role: Literal["system", "user", "assistant"]
    content: str


class _AgainError(Exception):
    """It may go better in a moment."""


def complete(settings: ModelSettings, messages: Sequence[Message], sleep: Callable[[float], None] = time.sleep) -> str:
    """Return what the model says next.

    Raises:
        ConfigError: the key cannot be read.
        ModelError: the endpoint cannot be reached, refuses, takes too long, or says what is no completion.
    """
    request = _request(settings, messages)
    try:
        return _said(settings, request)
    except _AgainError:
        sleep(RETRY_SECONDS)
    try:
        return _said(settings, request)
    except _AgainError as error:
        raise ModelError(f"the model at {host_of(settings.url)} {error}, twice; try again later") from error


def _request(settings: ModelSettings, messages: Sequence[Message]) -> urllib.request.Request:
    body = {
        "model": settings.model,
        "messages": [{"role": each.role, "content": each.content} for each in messages],
        "temperature": 0,
        "max_tokens": ANSWER_TOKENS,
        "stream": False,
    }
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if (key := settings.secret()) is not None:
        headers["Authorization"] = f"Bearer {key}"
    url = f"{settings.url}/chat/completions"
    return urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - checked by the settings


def _said(settings: ModelSettings, request: urllib.request.Request) -> str:
    who = host_of(settings.url)
    until = time.monotonic() + settings.timeout_seconds
    try:
        with opener(settings.url, settings.ca).open(request, timeout=settings.timeout_seconds) as answer:
            return _completion(who, _bounded(who, answer, until))
    except urllib.error.HTTPError as error:
        error.close()
        _refused(who, error)
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", error)
        raise _AgainError(f"does not answer ({getattr(why, 'strerror', None) or type(why).__name__})") from error


def _refused(who: str, error: urllib.error.HTTPError) -> NoReturn:
    if error.code in _BUSY or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _AgainError(f"answers {error.code}") from None
    if error.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise ModelError(f"the model at {who} answers {error.code}: it does not take the key of [model]") from None
    if error.code == HTTPStatus.NOT_FOUND:
        raise ModelError(
            f"the model at {who} answers 404: does [model] url end in /v1, and is model its name?"
        ) from None
    if HTTPStatus.MULTIPLE_CHOICES <= error.code < HTTPStatus.BAD_REQUEST:
        raise ModelError(
            f"{who} sends us elsewhere ({error.code}), where no key goes; name that address in [model] url"
        )
    raise ModelError(f"the model at {who} refuses with {error.code}; its log says why") from None


def _bounded(who: str, answer: http.client.HTTPResponse, until: float) -> bytes:
    """Return the body, read piece by piece: one that trickles ends in time, too."""
    body = bytearray()
    while piece := answer.read1(CHUNK_BYTES):
        body.extend(piece)
        if len(body) > ANSWER_BYTES:
            raise ModelError(
                f"the model at {who} says more than {ANSWER_BYTES // 1024} KiB; describe fewer tasks at once"
            )
        if time.monotonic() > until:
            raise ModelError(f"the model at {who} has not ended in time; raise [model] timeout_seconds")
    return bytes(body)


def _completion(who: str, body: bytes) -> str:
    try:
        choice = json_said(body)["choices"][0]
        text, ended = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ModelError(
            f"{who} does not answer as OpenAI's API does; does [model] url lead to an endpoint?"
        ) from error
    if not isinstance(text, str) or not text.strip():
        raise ModelError(f"the model at {who} says nothing; describe the tasks in other words, or ask another model")
    if ended == "length":
        raise ModelError(f"the model at {who} was cut off within its answer; describe fewer tasks at once")
    return text
