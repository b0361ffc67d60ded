"""A host's own key for the collector: had once for a join token, kept in a file that its user alone can read.

The link asks for it when the first batch is due, and again with every further try, so that an agent measures and keeps
what it measures while the collector is away, and one that was refused goes on as soon as an operator has made it right.
"""

import contextlib
import json
import logging
import os
from http import HTTPStatus
from pathlib import Path

from agent.connection import ask
from agent.delivery.post import MAX_ANSWER_BYTES, TIMEOUT_SECONDS, Link, PostAnswer
from agent.errors import ConfigError
from agent.settings.config import AgentConfig
from agent.wire.bounded import json_said

_LOG = logging.getLogger(__name__)
_ENROL = "/v1/enrol"
_ASIDE = ".tmp"
_PRIVATE = 0o600
_HERE = ("127.0.0.1", "::1", "localhost")
_LONGEST = 1000  # characters of a file that holds a key or token


def link_of(config: AgentConfig) -> Link:
    """Return the link to the collector: with the token of the settings, else with the host's key, else for a new one.

    Raises:
        ConfigError: the address is none, or a file of the settings cannot be read.
    """
    if config.token:
        return Link(config.collector, config.token, config.ca_file)
    key = _read(config.key_file) if config.key_file is not None and config.key_file.exists() else ""
    if key or config.join_token_file is None:
        return Link(config.collector, key, config.ca_file)
    if config.key_file is None:
        raise ConfigError("agent.join_token_file needs agent.key_file, to keep the key that it brings")
    _read(config.join_token_file)  # a missing one is found at the start
    return JoiningLink(config, config.join_token_file, config.key_file)


class JoiningLink(Link):
    """A link that shows a join token first, and from then on the key that it got for it."""

    def __init__(self, config: AgentConfig, join_token_file: Path, key_file: Path) -> None:
        super().__init__(config.collector, None, config.ca_file)
        self._join, self._key_file, self._node = join_token_file, key_file, config.node_name
        if not self.secure and self.host not in _HERE:
            _LOG.warning("the key of this host will come from %s as plain text; use https://", self.url)

    def post(self, body: bytes, *more: int | None) -> PostAnswer:
        """Send one batch; without a key ask for one first, and return the refusal where there is none to be had.

        Raises:
            OSError: no answer came, or the key cannot be written.
        """
        if not self._token and (refusal := self._enrol()) is not None:
            return refusal
        return super().post(body, *more)

    def _enrol(self) -> PostAnswer | None:
        if not self._key_file.parent.is_dir():  # asked first: the token has so many uses and no more
            return self._cannot_keep("its folder does not exist")
        try:
            answer, key = self._key(_read(self._join))
        except ConfigError as error:
            raise OSError(str(error)) from error
        if answer.status != HTTPStatus.CREATED or not key:
            # Never a status that judges the batch (400, 409, 413, 422): it waits until this is put right.
            status = answer.status if answer.status >= 500 else HTTPStatus.FORBIDDEN
            return PostAnswer(status, f"not enrolled: {answer.error}", "enrol")
        try:
            write_private(self._key_file, key)
        except OSError as error:  # the same token gives another key, as long as this one has opened nothing
            return self._cannot_keep(error.strerror or str(error))
        self._token = key
        self._headers = self._headers | {"Authorization": f"Bearer {key}"}
        _LOG.info("this host is enrolled as %s; its key is in %s", self._node, self._key_file)
        return None

    def _cannot_keep(self, why: str) -> PostAnswer:
        return PostAnswer(HTTPStatus.FORBIDDEN, f"not enrolled: cannot write key_file {self._key_file}: {why}", "enrol")

    def _key(self, token: str) -> tuple[PostAnswer, str]:
        """Show the join token; return what was answered, and the key in it."""
        body = json.dumps({"token": token, "node": self._node}).encode()
        reply = ask(
            self.url + _ENROL,
            body,
            {"Content-Type": "application/json"},
            timeout_seconds=TIMEOUT_SECONDS,
            most_bytes=MAX_ANSWER_BYTES,
            authority=self._ca_file,
        )
        said = _fields(reply.body)
        key = said.get("key")
        sentence = str(said.get("error") or reply.reason)[:300]
        return PostAnswer(reply.status, sentence), key if isinstance(key, str) and _is_shown(key) else ""


def write_private(path: Path, text: str) -> None:
    """Write a file that its owner alone can read, whole or not at all, safe from a power cut.

    Raises:
        OSError: it cannot be written.
    """
    aside = path.with_name(path.name + _ASIDE)
    with contextlib.suppress(FileNotFoundError):
        aside.unlink()
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    with os.fdopen(handle, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(_LONGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is no text'}") from error
    if not _is_shown(text):
        raise ConfigError(f"{path} holds no key or token; it has one line, as gpuledger admin access showed it")
    return text


def _is_shown(text: str) -> bool:
    """Return whether this can stand in a header: nothing else of it is checked, and it is never told."""
    return bool(text) and len(text) < _LONGEST and text.isascii() and text.isprintable() and " " not in text


def _fields(content: bytes) -> dict[str, object]:
    try:
        said = json_said(content)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
