"""The language model that reads descriptions of tasks: its table [model] of the settings, and one question to it."""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Literal, NoReturn
from urllib.parse import urlsplit

from agent.connection import TooSlowError, ask, host_of, pause_seconds, why
from agent.wire.bounded import json_said
from analyzer.capacity.planner.errors import ModelError
from analyzer.errors import ConfigError
from analyzer.settings.settings import proxy_address
from analyzer.settings.toml_entry import TomlEntry
from analyzer.settings.toml_model import about, read_settings, secret_text, toml_key
from collector.access.gate import is_loopback

_TABLE = "model"
_ENVIRONMENT = "GPULEDGER_MODEL_"
_MOST_SECONDS = 600


def _no_key(table: TomlEntry, _: str) -> NoReturn:
    raise ConfigError(f"{table.where}: a key does not stand here; put it into key_file or {_ENVIRONMENT}KEY")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Every key with its default and its help; docs/settings.md is tested against it."""

    url: str = field(
        default="",
        metadata=about(
            "address of an OpenAI-compatible endpoint, as in http://127.0.0.1:8000/v1; empty: none is asked"
        ),
    )
    model: str = field(default="", metadata=about("what the endpoint calls the model"))
    key_file: Path | None = field(
        default=None, metadata=about("file of the endpoint's key; none where it asks for none")
    )
    key: str = field(
        default="",
        repr=False,
        metadata=toml_key(
            read=_no_key, help="the same key, in GPULEDGER_MODEL_KEY alone: no secret stands in a file of settings"
        ),
    )
    proxy: str = field(
        default="",
        metadata=about("proxy to an endpoint of https, http://proxy:3128; empty: none, whatever the environment says"),
    )
    ca: Path | None = field(
        default=None, metadata=about("file of the certificates to trust, if they are not the system's")
    )
    timeout_seconds: int = field(default=60, metadata=about("how long one answer may take"))

    def __post_init__(self) -> None:
        if bool(self.url) != bool(self.model):
            raise ConfigError(f"[{_TABLE}] url and model go together; one of them is missing")
        if not 0 < self.timeout_seconds <= _MOST_SECONDS:
            raise ConfigError(f"[{_TABLE}] timeout_seconds is {self.timeout_seconds}: not 1 to {_MOST_SECONDS}")
        if self.key and self.key_file is not None:
            raise ConfigError(f"the key is in {_ENVIRONMENT}KEY and in [{_TABLE}] key_file; leave one of them out")
        if self.url:
            object.__setattr__(self, "url", _url(self.url).rstrip("/"))
        if self.proxy:
            object.__setattr__(self, "proxy", proxy_address(f"[{_TABLE}] proxy", self.proxy, self.url))
        if self.url.startswith("http://") and (self.key or self.key_file) and not is_loopback(self.host):
            raise ConfigError(f"[{_TABLE}] url is {self.url}: a key goes over https, or to this machine alone")

    @property
    def host(self) -> str:
        """The host of the address."""
        return urlsplit(self.url).hostname or ""

    def ready(self) -> "ModelSettings":
        """Return them where a model is set.

        Raises:
            ConfigError: none is; the sentence says how to set one.
        """
        if not self.url:
            raise ConfigError(
                "no language model is asked anything until you name one: write [model] with url and model into "
                "gpuledger.toml (docs/assistant.md); or write the task file yourself: "
                "gpuledger capacity plan TASKS.yaml"
            )
        return self

    def secret(self) -> str | None:
        """Return the key, of a file as it is now; None where the endpoint asks for none.

        Raises:
            ConfigError: the file cannot be read, or holds no key; what it holds is never told.
        """
        text = self.key
        if self.key_file is not None:
            text = secret_text(_TABLE, "key_file", self.key_file).strip()
        elif not text:
            return None
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise ConfigError(f"the key of [{_TABLE}] is empty, or has blanks, lines or letters that no key has")
        return text

    @classmethod
    def read(
        cls, path: Path | None, known: Collection[str], environ: Mapping[str, str] | None = None
    ) -> "ModelSettings":
        """Return the settings of a file with those tables, or the defaults without one; variables over both.

        Raises:
            ConfigError: a key is unknown, a value is wrong, or the file cannot be read.
        """
        return read_settings(cls, _TABLE, path, known, environ)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"[{_TABLE}] url is no address: {error}") from error
    if parts.username or parts.password:
        raise ConfigError(f"[{_TABLE}] url must not bear a password, which others could read; put it into key_file")
    is_plain = text.isascii() and text.isprintable() and " " not in text and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not host or port == 0 or not is_plain:
        raise ConfigError(f"[{_TABLE}] url is no address like https://models.example/v1, without a query")
    return text


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
