"""After each pass of the analysis: what is new is told, and what waits for the webhook is handed on.

Each event is sent once, signed when it is sent, and tried again with growing waits.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.connection import ask, host_of, why
from agent.wire.units import HOUR_US, MINUTE_US, SECOND_US
from analyzer.errors import AnalyzerError
from analyzer.interfaces.alarms.alarm import (
    SIGNATURE,
    Alarm,
    Event,
    alertmanager_body,
    chat_body,
    present,
    signature,
    turn,
    webhook_body,
)
from analyzer.interfaces.alarms.settings import AlarmSettings
from analyzer.ledger.coverage import newest_hour_end
from analyzer.period import local, midnight
from analyzer.settings.settings import Settings
from analyzer.text.words import plain_sentence
from collector.errors import CollectorError
from collector.registry import AlarmChange, AlarmPost, Alarms, KeptAlarm

if TYPE_CHECKING:
    from analyzer.reports.reader import Reader


class AlarmError(AnalyzerError):
    """An alarm could not be handed over; the message says to whom and why, and carries no secret."""


class LaterError(AlarmError):
    """Not now."""


class RefusedError(AlarmError):
    """Not as it is, however often it is tried."""


_MOST = 100  # in one turn
_FIRST_WAIT_US, _LONGEST_WAIT_US = MINUTE_US, HOUR_US
_ATTEMPTS_MOST = 40  # with these waits about a day and a half


def _waiting_event(event: Event, alarm: Alarm, opened_at: int, now: int, cluster: str, currency: str) -> AlarmPost:
    id_ = f"{alarm.id}.{opened_at}.{event}"
    body = webhook_body(event, id_, alarm, now, cluster, currency)
    return AlarmPost(id_, "queued", now, 0, now, None, "", body)


def _send_due(alarms: Alarms, settings: AlarmSettings, now: int) -> Iterator[AlarmPost]:
    """Send what is due, the oldest first, and yield what became of each; it ends where the receiver is out of reach.

    Raises:
        ConfigError: the secret cannot be read.
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


def _sent(one: AlarmPost, settings: AlarmSettings, key: bytes, now: int) -> AlarmPost:
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


def post_signed(settings: AlarmSettings, key: bytes, body: bytes, now: int) -> None:
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


_LOG = logging.getLogger(__name__)
LASTS_US = HOUR_US  # for so long Alertmanager keeps an alarm that nobody tells again: we are gone then
_ENDED_TOLD_US = 15 * MINUTE_US  # for so long it is told that one has ended


@dataclass(frozen=True, slots=True)
class _TurnResult:
    """What one turn came to; `failing` says which receiver takes nothing now, and why."""

    lasting: int = 0
    said: int = 0
    ended: int = 0
    failing: str | None = None


class AlarmReporter:
    """Tells a site's alarms. `read` opens a reader of the ledger; nothing is raised, a failure is logged once."""

    def __init__(self, settings: AlarmSettings, alarms: Alarms, read: "Callable[[], Reader]") -> None:
        self._settings = settings
        self._alarms = alarms
        self._read = read
        self.last = _TurnResult()

    def __call__(self, now: int) -> _TurnResult:
        """Take one turn at a moment, microseconds UTC."""
        try:
            done = self._turn(now)
        except (AnalyzerError, CollectorError) as error:
            done = replace(self.last, failing=str(error))
        if done.failing != self.last.failing:
            _LOG.warning("alarms: %s", done.failing or "receivers accept alarms again")
        self.last = done
        return done

    def _turn(self, now: int) -> _TurnResult:
        reader = self._read()
        with reader.session:
            if newest_hour_end(reader.session) is None:
                return _TurnResult()
            alarms = present(reader, self._settings)
        said, ended = self._remember(alarms, reader.settings, now)
        failing = [self._tell_alertmanager(alarms, reader.settings, now)]
        failing += [each.told for each in _send_due(self._alarms, self._settings, now) if each.state != "sent"]
        return _TurnResult(len(alarms), said, ended, next((one for one in failing if one), None))

    def _remember(self, alarms: Sequence[Alarm], site: Settings, now: int) -> tuple[int, int]:
        """Write down what is new and what is over, with what the webhook is to get of it."""
        kept = {one.id: one for one in self._alarms.lasting()}
        today = self._alarms.said_since(midnight(local(now, site.timezone).date(), site.timezone))
        known = {one.id: one.said_at is not None for one in kept.values()}
        change = turn(alarms, known, lambda team: today.get(team, 0), self._settings.a_day)

        def post_of(event: Event, alarm: Alarm) -> AlarmPost | None:
            if not self._settings.webhook:
                return None
            opened_at = kept[alarm.id].opened_at if alarm.id in kept else now
            return _waiting_event(event, alarm, opened_at, now, site.cluster, site.currency)

        opened = [KeptAlarm(one.id, now, one.team, one.urgent, None, None, spelled(one)) for one in change.opened]
        said = {alarm.id: post_of("opened", alarm) for alarm in change.said}
        ended = {id_: post_of("ended", read_back(kept[id_].body)) if known[id_] else None for id_ in change.ended}
        self._alarms.change(AlarmChange(opened, said, ended), now)
        return len(said), sum(known[id_] for id_ in change.ended)

    def _tell_alertmanager(self, alarms: Sequence[Alarm], site: Settings, now: int) -> str | None:
        """Tell it all that lasts and was said, and what has just ended; return what went wrong, or None."""
        if not self._settings.alertmanager:
            return None
        said = {one.id for one in self._alarms.lasting() if one.said_at is not None}
        over = [(read_back(one.body), one.ended_at or now) for one in self._alarms.ended_since(now - _ENDED_TOLD_US)]
        lasting = [alarm for alarm in alarms if alarm.id in said]
        if not lasting and not over:
            return None
        body = alertmanager_body(lasting, over, now + LASTS_US, site.cluster, site.currency)
        try:
            post(f"{self._settings.alertmanager}/api/v2/alerts", body, {}, self._settings.ca)
        except AlarmError as error:
            return f"Alertmanager: {error}"
        return None
