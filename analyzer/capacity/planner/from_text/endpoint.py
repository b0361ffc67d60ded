"""Ask an OpenAI-compatible endpoint for one completion: bounded in time and bytes, one retry, no redirect.

What it says of an error may quote the key that it was shown, so none of that is told on.

Source: https://platform.openai.com/docs/api-reference/chat; vLLM, llama.cpp and Ollama answer in the same shape.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, NoReturn

from agent.connection import TooSlowError, ask, host_of, pause_seconds, why
from agent.wire.bounded import json_said
from analyzer.capacity.planner.from_text.errors import ModelError
from analyzer.capacity.planner.from_text.settings import ModelSettings

ANSWER_BYTES = 512 * 1024
RETRY_SECONDS = 4.0  # at most
_ANSWER_TOKENS = 8192  # an endpoint may know a smaller bound
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
    body, headers = _request(settings, messages)
    try:
        return _said(settings, body, headers)
    except _AgainError:
        sleep(pause_seconds(0, RETRY_SECONDS, RETRY_SECONDS))
    try:
        return _said(settings, body, headers)
    except _AgainError as error:
        raise ModelError(f"the model at {host_of(settings.url)} {error}, twice; try again later") from error


def _request(settings: ModelSettings, messages: Sequence[Message]) -> tuple[bytes, dict[str, str]]:
    body = {
        "model": settings.model,
        "messages": [{"role": each.role, "content": each.content} for each in messages],
        "temperature": 0,
        "max_tokens": _ANSWER_TOKENS,
        "stream": False,
    }
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if (key := settings.secret()) is not None:
        headers["Authorization"] = f"Bearer {key}"
    return json.dumps(body).encode(), headers


def _said(settings: ModelSettings, body: bytes, headers: dict[str, str]) -> str:
    who, seconds = host_of(settings.url), settings.timeout_seconds
    try:
        reply = ask(
            f"{settings.url}/chat/completions", body, headers, timeout_seconds=seconds, most_bytes=ANSWER_BYTES,
            authority=settings.ca, proxy=settings.proxy,
        )  # fmt: skip
    except TooSlowError as error:
        raise ModelError(f"the model at {who} has not ended in time; raise [model] timeout_seconds") from error
    except OSError as error:
        raise _AgainError(f"does not answer ({why(error)})") from error
    if not reply.is_success:
        _refused(who, reply.status)
    if not reply.is_whole:
        raise ModelError(f"the model at {who} says more than {ANSWER_BYTES // 1024} KiB; describe fewer tasks at once")
    return _completion(who, reply.body)


def _refused(who: str, status: int) -> NoReturn:
    if status in _BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _AgainError(f"answers {status}")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise ModelError(f"the model at {who} answers {status}: it does not take the key of [model]")
    if status == HTTPStatus.NOT_FOUND:
        raise ModelError(f"the model at {who} answers 404: does [model] url end in /v1, and is model its name?")
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        raise ModelError(f"{who} sends us elsewhere ({status}), where no key goes; name that address in [model] url")
    raise ModelError(f"the model at {who} refuses with {status}; its log says why")


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
