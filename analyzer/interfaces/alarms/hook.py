"""The webhook's queue: each event once, signed when it is sent, tried again with growing waits."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.connection import ask, host_of, why
from agent.wire.units import SECOND_US
from analyzer.errors import AnalyzerError
from analyzer.interfaces.alarms.alarm import SIGNATURE, Alarm, Event, chat_body, signature, webhook_body
from analyzer.text.words import plain_sentence
from collector.registry import AlarmPost, Alarms

if TYPE_CHECKING:
    from analyzer.interfaces.alarms.settings import AlarmSettings


class AlarmError(AnalyzerError):
    """An alarm could not be handed over; the message says to whom and why, and carries no secret."""


class LaterError(AlarmError):
    """Not now."""


class RefusedError(AlarmError):
    """Not as it is, however often it is tried."""


_MOST = 100  # in one turn
_FIRST_WAIT_US, _LONGEST_WAIT_US = 60_000_000, 3_600_000_000
_ATTEMPTS_MOST = 40  # with these waits about a day and a half


def waiting_event(event: Event, alarm: Alarm, opened_at: int, now: int, cluster: str, currency: str) -> AlarmPost:
    """Return one event as it waits."""
    id_ = f"{alarm.id}.{opened_at}.{event}"
    body = webhook_body(event, id_, alarm, now, cluster, currency)
    return AlarmPost(id_, "queued", now, 0, now, None, "", body)


def send_due(alarms: Alarms, settings: "AlarmSettings", now: int) -> Iterator[AlarmPost]:
    """Send what is due, the oldest first, and yield what became of each; it ends where the receiver is out of reach.

    Raises:
        ConfigError: the secret cannot be read.
        RegistryError: the registry does not answer.
    """
    if not settings.webhook:
        return
    key = settings.key()
    for one in alarms.due(now, _MOST):
        done = _sent(one, settings, key, now)
        alarms.settle(done)
        yield done
        if done.state == "queued":
            return


def _sent(one: AlarmPost, settings: "AlarmSettings", key: bytes, now: int) -> AlarmPost:
    attempts = one.attempts + 1
    try:
        post_signed(settings, key, (one.body or "").encode(), now)
    except RefusedError as error:
        return replace(one, state="failed", attempts=attempts, done_at=now, told=str(error), body=None)
    except LaterError as error:
        if attempts >= _ATTEMPTS_MOST:
            told = f"given up after {attempts} attempts: {error}"
            return replace(one, state="failed", attempts=attempts, done_at=now, told=told, body=None)
        return replace(one, attempts=attempts, next_at=now + _wait_us(attempts), told=str(error))
    return replace(one, state="sent", attempts=attempts, done_at=now, told="", body=None)


def post_signed(settings: "AlarmSettings", key: bytes, body: bytes, now: int) -> None:
    """Hand an event to the webhook, as its chat takes it, with a signature; raises as `post` does."""
    told = chat_body(urlsplit(settings.webhook).hostname or "", body)
    headers = {SIGNATURE: signature(key, told, now // SECOND_US)}
    post(settings.webhook, told, headers, settings.ca, settings.webhook_proxy)


def _wait_us(attempts: int) -> int:
    """Return how long an event rests after so many attempts: a minute, then twice as long each time, up to an hour."""
    return min(_LONGEST_WAIT_US, _FIRST_WAIT_US << min(attempts - 1, 16))


def spelled(alarm: Alarm) -> str:
    """Return an alarm as it is remembered."""
    return json.dumps(asdict(alarm), ensure_ascii=False)


def read_back(text: str) -> Alarm:
    """Return a remembered alarm."""
    return Alarm(**json.loads(text))


_SECONDS = 10
_SAID_BYTES, _SAID_LETTERS = 1024, 200


def post(url: str, body: bytes, headers: Mapping[str, str], authority: Path | None = None, proxy: str = "") -> None:
    """Hand over a body of JSON; an https:// address may be one that is reached through a proxy.

    Raises:
        LaterError: out of reach, not in time, or 408, 429 or 5xx.
        RefusedError: any other answer that is not 2xx.
    """
    who = host_of(url)
    headers = {"Content-Type": "application/json", **headers}
    try:
        reply = ask(
            url, body, headers, timeout_seconds=_SECONDS, most_bytes=_SAID_BYTES, authority=authority, proxy=proxy
        )
    except OSError as error:
        raise LaterError(f"{who} does not answer: {why(error)}") from error
    if not reply.is_success:
        said = plain_sentence(reply.body.decode(errors="replace"))[:_SAID_LETTERS]
        words = f"{who} answers {reply.status}{f': {said}' if said else ''}"
        again = reply.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS) or reply.status >= 500
        raise (LaterError if again else RefusedError)(words)
