"""POST /v1/enrol: a new host shows a join token and its name, and gets a key of its own. No other key is needed.

What the collector remembers of hosts that send under keys of their own is here too: since when, and whose each GPU is.
"""

import asyncio
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.wire.bounded import json_said
from collector.access.access import Access, Attempts
from collector.access.secret import JOIN, digest, matches, new_secret, parsed
from collector.errors import JoinError, RegistryError
from collector.pipeline.decoding.own_word import Host
from collector.problem import problem_response
from collector.registry import AccessKey
from collector.registry.keys import Homes

_MOST_BYTES = 4096
_PATIENCE_SECONDS = 10.0
AT_ONCE, _EACH_SECONDS = 30, 2.0  # refused enrolments of one address: hosts behind one may share it
_BUSY = "attempts"
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}")


class Enrol:
    """The ASGI application behind /v1/enrol."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._attempts = Attempts(at_once=AT_ONCE, each_seconds=_EACH_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer: ASGIApp
        address = (scope.get("client") or ("",))[0]
        try:
            if wait := math.ceil(self._attempts.wait_seconds(address)):
                raise JoinError(429, _BUSY, f"too many enrollments from this address were refused; retry in {wait} s")
            token, node = enrolment_of(await _body(receive))
            key = await asyncio.to_thread(_enrolled, self._access, token, node)
            await asyncio.to_thread(self._access.directory.refresh)
            answer = JSONResponse({"key": key, "node": node}, 201, {"Cache-Control": "no-store"})
        except JoinError as error:
            if error.reason != _BUSY:
                self._attempts.failed(address)
                self._access.usage.note("refused", "", "POST", "/v1/enrol")
            later = {"Retry-After": str(wait)} if error.reason == _BUSY else {}
            answer = problem_response(error.status, str(error), later, error=str(error), reason=error.reason)
        except RegistryError:
            sentence = "the registry does not answer; try again in a minute"
            answer = problem_response(503, sentence, {"Retry-After": "60"}, error=sentence, reason="registry")
        await answer(scope, receive, send)


def _enrolled(access: Access, token: str, node: str) -> str:
    """Return a new key of a host.

    Raises:
        JoinError: the token is none, or not for this host, or the host has a key.
    """
    shown = parsed(token)
    if shown is None or shown.role != JOIN:
        raise JoinError(403, "join_token", "this is not a join token; create one: gpuledger admin access join")
    joins = access.registry.joins
    join = joins.find(shown.id)
    if not matches(shown.secret, join.hash if join is not None else digest("")) or join is None:
        raise JoinError(403, "join_token", "no such join token; create one: gpuledger admin access join")
    new, now = new_secret("agent"), access.now()
    key = AccessKey(new.id, "agent", node, digest(new.secret), now, f"join:{join.id}", node)
    joins.enrol(join.id, key, node, now)
    return new.text


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                message = await receive()
                body += message.get("body", b"")
                if len(body) > _MOST_BYTES:
                    raise JoinError(413, "too_large", f"an enrollment is {_MOST_BYTES} bytes or less")
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError as error:
        raise JoinError(408, "slow", f"the enrollment took more than {_PATIENCE_SECONDS:g} s to arrive") from error


def enrolment_of(body: bytes) -> tuple[str, str]:
    """Return the token and the name of the host that an enrolment shows.

    Raises:
        JoinError: it is none.
    """
    try:
        said = json_said(body)
    except ValueError as error:
        raise JoinError(400, "json", 'an enrollment is JSON: {"token": "gl_join_...", "node": "..."}') from error
    token, node = (said.get("token"), said.get("node")) if isinstance(said, dict) else (None, None)
    if not isinstance(token, str) or not isinstance(node, str) or not _NODE.fullmatch(node):
        raise JoinError(400, "fields", 'an enrollment has "token", and "node": letters, digits, dots, :, - and _')
    return token, node


_MOST_HOSTS = 100_000
_FRESH_SECONDS = 3600.0  # after which the registry is asked anew: a GPU may have been moved
_REFUSED_SECONDS = 60.0  # for which a GPU of another host is not asked about again


class HostBook:
    """Remembers hosts; the registry is asked of what is new alone. `learn` may wait for it: not on an event loop."""

    def __init__(self, homes: Homes, clock: Callable[[], float] = time.monotonic) -> None:
        self._homes = homes
        self._clock = clock
        self._hosts: OrderedDict[str, tuple[float, Host]] = OrderedDict()
        self._refused: dict[str, tuple[float, frozenset[str]]] = {}

    def known(self, node: str) -> Host | None:
        """Return a host that was heard before; None where the registry must say."""
        at, host = self._hosts.get(node, (0.0, None))
        return host if host is not None and self._clock() - at < _FRESH_SECONDS else None

    def settled(self, node: str, gpus: Collection[str]) -> Host | None:
        """Return the host where nothing in a batch with these GPUs is new; None where the registry must say."""
        host = self.known(node)
        if host is None:
            return None
        at, refused = self._refused.get(node, (0.0, frozenset[str]()))
        return host if host.gpus.union(refused if self._clock() - at < _REFUSED_SECONDS else ()) >= set(gpus) else None

    def learn(self, node: str, sent_at: int, gpus: Collection[str]) -> Host:
        """Ask the registry, note there what nobody has told of before, and return the host.

        Raises:
            RegistryError: it does not answer.
        """
        known = self.known(node)
        asked = {*gpus, *(known.gpus if known is not None else ())}
        homes = self._homes.claim(node, asked, time.time_ns() // 1000)
        first = self._homes.first_heard(node, sent_at) if known is None else known.first_sent_at
        host = Host(node, first, frozenset(gpu for gpu, home in homes.items() if home == node))
        now = self._clock()
        self._hosts[node] = now, host
        self._hosts.move_to_end(node)
        if len(self._hosts) > _MOST_HOSTS:
            self._refused.pop(self._hosts.popitem(last=False)[0], None)
        refused = asked - host.gpus
        if refused:
            self._refused[node] = now, frozenset(refused)
        else:
            self._refused.pop(node, None)
        return host
