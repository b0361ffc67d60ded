"""ASGI middleware before every route: who comes, whether they may, and a note of who read what.

Authorization says who somebody is, or the cookie of a browser that has logged in (secret.py). What a proxy adds
(X-Forwarded-For, Forwarded, X-Remote-User) is not believed, so nobody gains anything by sending it; without keys, who
sends it is refused. Every route and the
right it needs stand in one table; what is not in it needs the right to change everything. tests/access walks the routes
of the whole server and its OpenAPI document, and fails where one is missing. What a browser sends to change something,
a form, is read whole and bounded, with what shows that our page made it.
"""

import asyncio
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from re import Pattern
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collector.access.access import Access
from collector.access.secret import SECURE_COOKIE, cookie_of, presented
from collector.config import is_loopback
from collector.errors import AccessError
from collector.problem import problem_response
from collector.registry.roles import LOOPBACK, PERSON, SETTINGS, Principal, Right


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route, as the application declares it. `by_team`: it shows a team's key what is that team's, and no more."""

    method: str
    path: str
    right: Right
    by_team: bool = False


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", "/healthz", Right.OPEN),
    Endpoint("GET", "/readyz", Right.OPEN),
    Endpoint("POST", "/v1/enrol", Right.OPEN),  # it asks for a join token itself
    # Whoever has the link of a mail may stop that mail, without a key; the GET changes nothing (analyzer/mail).
    Endpoint("GET", "/mail/stop/{token}", Right.OPEN),
    Endpoint("POST", "/mail/stop/{token}", Right.OPEN),
    # The page that asks for a key, and what it looks like; it tells nothing of the site (dashboards/server/login.py).
    Endpoint("GET", "/login", Right.OPEN),
    Endpoint("POST", "/login", Right.OPEN),
    Endpoint("GET", "/login/start", Right.OPEN),
    Endpoint("GET", "/login/callback", Right.OPEN),
    Endpoint("GET", "/static/{name}", Right.OPEN),
    Endpoint("POST", "/logout", Right.LEARN, by_team=True),
    Endpoint("GET", "/mine", Right.READ, by_team=True),
    Endpoint("GET", "/v1/schema", Right.LEARN, by_team=True),
    Endpoint("GET", "/v1/openapi.json", Right.LEARN, by_team=True),
    Endpoint("POST", "/v1/batches", Right.BATCHES),
    Endpoint("POST", "/api/v1/write", Right.REMOTE_WRITE),
    Endpoint("GET", "/metrics", Right.READ),
    Endpoint("GET", "/v1/doctor", Right.READ),
    Endpoint("GET", "/v1/backup", Right.CHANGE),
    Endpoint("POST", "/v1/backup", Right.CHANGE),
    Endpoint("GET", "/v1/prices", Right.READ),
    Endpoint("PUT", "/v1/prices", Right.CHANGE),
    # The API shows a team's key that team's runs alone, and sums no others (reports/filtered_reader.py).
    Endpoint("GET", "/v1/runs", Right.READ, by_team=True),
    Endpoint("GET", "/v1/runs/{run_id:path}/series", Right.READ, by_team=True),
    Endpoint("GET", "/v1/runs/{run_id:path}/profile", Right.READ, by_team=True),
    Endpoint("GET", "/v1/runs/{run_id:path}/traffic", Right.READ, by_team=True),
    Endpoint("GET", "/v1/runs/{run_id:path}", Right.READ, by_team=True),
    Endpoint("GET", "/v1/profiles", Right.READ, by_team=True),
    Endpoint("GET", "/v1/ledger", Right.READ, by_team=True),
    Endpoint("GET", "/v1/costs", Right.READ, by_team=True),
    Endpoint("GET", "/v1/findings", Right.READ, by_team=True),
    Endpoint("GET", "/v1/findings/{finding_id}", Right.READ, by_team=True),
    Endpoint("POST", "/v1/findings/{finding_id}/judgement", Right.JUDGE, by_team=True),
    Endpoint("POST", "/v1/findings/{finding_id}/mute", Right.JUDGE, by_team=True),
    Endpoint("GET", "/v1/recommendations", Right.READ, by_team=True),
    Endpoint("GET", "/v1/recommendations/{advice_id}", Right.READ, by_team=True),
    Endpoint("POST", "/v1/recommendations/{advice_id}/acceptance", Right.JUDGE, by_team=True),
    Endpoint("POST", "/v1/recommendations/{advice_id}/rejection", Right.JUDGE, by_team=True),
    Endpoint("GET", "/v1/savings", Right.READ, by_team=True),
    Endpoint("GET", "/v1/notices", Right.READ, by_team=True),
    Endpoint("GET", "/v1/adjustments", Right.READ, by_team=True),
    Endpoint("GET", "/v1/hours", Right.READ, by_team=True),
    Endpoint("GET", "/v1/topology", Right.READ, by_team=True),  # what stands where is of no team; no figure is in it
    Endpoint("GET", "/v1/plan/history", Right.READ, by_team=True),
    Endpoint("GET", "/v1/plan/nodes", Right.READ),  # what others hold and the fleet has free
    Endpoint("GET", "/v1/sizing", Right.READ),  # the site's prices, and everybody's runs
    Endpoint("GET", "/v1/invoices", Right.READ),
    Endpoint("POST", "/v1/invoices", Right.RECONCILE),
    # What the fleet has free is in it: of the whole site, never of one team's key.
    Endpoint("GET", "/v1/capacity-profile", Right.READ),
    Endpoint("GET", "/v1/capacity-requests", Right.READ, by_team=True),
    Endpoint("POST", "/v1/capacity-requests", Right.ASK, by_team=True),
    Endpoint("GET", "/v1/capacity-requests/{request_id}", Right.READ, by_team=True),
    Endpoint("POST", "/v1/capacity-requests/{request_id}/waivers", Right.APPROVE, by_team=True),
    # Those that can be of a team; the others are refused to its key (analyzer/interfaces/reports/part_reader.py).
    Endpoint("GET", "/v1/read", Right.READ, by_team=True),
    # These pages are read through the API's door, and show a team's key what is that team's.
    Endpoint("GET", "/money", Right.READ, by_team=True),
    Endpoint("GET", "/money/{sheet}", Right.READ, by_team=True),
    Endpoint("GET", "/placement", Right.READ, by_team=True),
    Endpoint("GET", "/placement/{sheet}", Right.READ, by_team=True),
    Endpoint("GET", "/recommendations", Right.READ, by_team=True),
    Endpoint("GET", "/recommendations/{sheet}", Right.READ, by_team=True),
    Endpoint("POST", "/recommendations/{advice_id}", Right.JUDGE, by_team=True),
    Endpoint("GET", "/runs", Right.READ, by_team=True),
    Endpoint("GET", "/runs.csv", Right.READ, by_team=True),
    Endpoint("GET", "/compare", Right.READ, by_team=True),
    Endpoint("GET", "/", Right.READ, by_team=True),
    Endpoint("GET", "/parts/{name}", Right.READ, by_team=True),
    Endpoint("GET", "/runs/{run_id:path}/timeline", Right.READ, by_team=True),
    Endpoint("GET", "/runs/{run_id:path}/parts/{name}", Right.READ, by_team=True),
    Endpoint("GET", "/runs/{run_id:path}", Right.READ, by_team=True),
    Endpoint("GET", "/findings", Right.READ, by_team=True),
    Endpoint("GET", "/findings/{finding_id}", Right.READ, by_team=True),
    Endpoint("POST", "/findings/{finding_id}", Right.JUDGE, by_team=True),
    Endpoint("GET", "/requests", Right.READ, by_team=True),
    Endpoint("GET", "/requests/{request_id}", Right.READ, by_team=True),
    Endpoint("POST", "/requests/{request_id}/waivers", Right.APPROVE, by_team=True),
    # These pages show the whole site.
    Endpoint("GET", "/health", Right.READ),
    Endpoint("GET", "/health/rules", Right.READ),
    Endpoint("GET", "/health/{sheet}", Right.READ),
)
AS_GET: Final = ("HEAD", "OPTIONS")  # what balancers and probes ask with: the answer is that of GET, without its body
UNKNOWN: Final = Endpoint("*", "(unknown)", Right.CHANGE)


def endpoint_of(method: str, path: str) -> Endpoint:
    """Return the route that a request is for, with the matching of the router itself; UNKNOWN where there is none."""
    wanted = "GET" if method in AS_GET else method
    plain, patterns = _sorted()
    found = plain.get((wanted, path))
    if found is not None:
        return found
    return next((one for pattern, one in patterns if one.method == wanted and pattern.match(path)), UNKNOWN)


@lru_cache(maxsize=1)
def _sorted() -> tuple[dict[tuple[str, str], Endpoint], list[tuple[Pattern[str], Endpoint]]]:
    """Return the routes without parameters, of which agents ask thousands a second, and the patterns of the others."""
    plain = {(one.method, one.path): one for one in ENDPOINTS if "{" not in one.path}
    return plain, [(compile_path(one.path)[0], one) for one in ENDPOINTS if "{" in one.path]


FORM = "application/x-www-form-urlencoded"
FORM_BYTES = 65_536
_FORM_SECONDS = 10.0
_FIELDS_MOST = 100
FIELD = "csrf"
_HEADER = b"x-csrf-token"
SAFE = ("GET", *AS_GET)


def is_form(headers: dict[bytes, bytes]) -> bool:
    """Return whether a request sends a form, as a page of any site can make a browser do."""
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower() == FORM.encode()


def same_site(method: str, headers: dict[bytes, bytes], public: bytes | None = None) -> None:
    """Refuse a change that a page of another site makes a browser send: it adds a password by itself, and says so.

    Ours is the `public` origin, where people reach the site, whatever Host a proxy gives to us; or the Host itself.

    Raises:
        AccessError: 403.
    """
    origin = headers.get(b"origin")
    if method in SAFE or origin is None or (public is not None and origin.lower() == public):
        return
    if origin.partition(b"://")[2] != headers.get(b"host"):
        raise AccessError(403, "origin", "a page of another site must not change anything here")


def fields_of(content: bytes) -> dict[str, str]:
    """Return the fields of a form; of several of one name the first.

    Raises:
        AccessError: 400, it is no form.
    """
    try:
        pairs = parse_qsl(content.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MOST)
    except ValueError as error:
        raise AccessError(400, "form", "the request body cannot be read as a form") from error
    return dict(reversed(pairs))


async def body_of(receive: Receive) -> bytes:
    """Return a small body.

    Raises:
        AccessError: 413, it is larger than a form of ours can be, or 408, it took too long; no more of it is read.
    """
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            return await _read(receive)
    except TimeoutError as error:
        raise AccessError(408, "form", f"a form must arrive within {_FORM_SECONDS:g} s") from error


async def _read(receive: Receive) -> bytes:
    content, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise AccessError(400, "form", "the connection closed before the whole form arrived")
        content += message.get("body", b"")
        more = message.get("more_body", False)
        if len(content) > FORM_BYTES:
            raise AccessError(413, "form", f"a form must not exceed {FORM_BYTES:,} bytes")
    return content


async def own_change(scope: Scope, receive: Receive, headers: dict[bytes, bytes], token: str) -> Receive:
    """Return what the route shall read the body from, once a change has shown the token of its session.

    It comes as the header X-CSRF-Token, or as the field `csrf` of a form.

    Raises:
        AccessError: 403, it shows none, or another's: a page of another site may have made the browser send it.
    """
    if scope["method"] in SAFE:
        return receive
    shown, again = headers.get(_HEADER, b"").decode("latin-1"), receive
    if not shown and is_form(headers):
        content = await body_of(receive)
        shown, again = fields_of(content).get(FIELD, ""), _again(content, receive)
    if not hmac.compare_digest(shown.encode(), token.encode()):
        raise AccessError(403, "csrf", "this change did not come from a page of this session: reload the page")
    return again


def _again(content: bytes, receive: Receive) -> Receive:
    """Return a body that was read once as it would have come; what comes after it is the connection's own."""
    waiting = [{"type": "http.request", "body": content, "more_body": False}]

    async def replay() -> Any:  # noqa: ANN401 - a message of ASGI
        return waiting.pop() if waiting else await receive()

    return replay


def _without_body(send: Send, method: str) -> Send:
    """Return what sends the head of an answer alone; to HEAD with the length that the body has."""

    async def head(message: Message) -> None:
        if message["type"] == "http.response.body":
            if message.get("more_body"):
                return
            message = {"type": "http.response.body"}
        elif method == "OPTIONS":
            kept = [(name, value) for name, value in message["headers"] if name.lower() != b"content-length"]
            if message["status"] != HTTPStatus.METHOD_NOT_ALLOWED:  # whose answer names what may be asked here
                kept.append((b"allow", b"GET, HEAD, OPTIONS"))
            message = {**message, "headers": [*kept, (b"content-length", b"0")]}
        await send(message)

    return head


_WITHOUT_HOST = ("/healthz", "/readyz")
_AUDITED = (Right.READ, Right.CHANGE)


class Gate:
    """Answers 401 to who shows nothing that is known, 403 to who may not; the others pass as `scope["principal"]`.

    `named` returns the route that a method and a path are for; a server with routes of its own brings its own table.
    """

    def __init__(self, app: ASGIApp, access: Access, named: Callable[[str, str], Endpoint] = endpoint_of) -> None:
        self._app = app
        self._access = access
        self._named = named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":  # there is no other way in
            return
        if scope["method"] in AS_GET:
            scope, send = {**scope, "method": "GET"}, _without_body(send, scope["method"])
        endpoint = self._named(scope["method"], scope["path"])
        headers = dict(scope["headers"])
        try:
            _one_host(scope)
            if endpoint.right is not Right.OPEN:
                is_secure = self._access.comes_by_tls or scope.get("scheme") == "https"
                principal, token = await self._who(headers, is_secure=is_secure)
                same_site(scope["method"], headers, self._access.public_origin)
                _admit(principal, endpoint)
                scope["principal"], scope["csrf"] = principal, token or self._access.open_token
                if token is not None or (principal is LOOPBACK and is_form(headers)):
                    receive = await own_change(scope, receive, headers, scope["csrf"])
                if endpoint.right in _AUDITED:
                    self._access.usage.note("read", principal.id, scope["method"], endpoint.path)
        except AccessError as refusal:
            self._access.usage.note("refused", refusal.who, scope["method"], endpoint.path)
            await self._refusal(scope, refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _who(self, headers: dict[bytes, bytes], *, is_secure: bool) -> tuple[Principal, str | None]:
        """Return who comes; of a browser that has logged in also the token that each of its changes must show."""
        access = self._access
        if not access.asks:
            _came_from_here(headers)
            return LOOPBACK, None
        session = None
        name = SECURE_COOKIE if is_secure else None
        if b"authorization" not in headers and (cookie := cookie_of(headers.get(b"cookie", b""), name)):
            session = access.sessions.of(cookie)
        if session is None:
            principal = await access.holder(presented(headers.get(b"authorization", b"")))
        else:
            principal = access.logged_in(session)
        if principal.id != SETTINGS.id and not principal.id.startswith(PERSON):
            access.usage.key(principal.id)
        return principal, None if session is None else session.token

    def _refusal(self, scope: Scope, refusal: AccessError) -> ASGIApp:
        told = self._access.to_people(scope, refusal) if self._access.to_people is not None else None
        return told or _problem(refusal)


def _one_host(scope: Scope) -> None:
    """Refuse who says no host or several: what stands before us may have looked at another than we do (RFC 9112, 3.2).

    HTTP/1.0 knows none, and balancers ask with it whether we are well: that has one answer for all.
    """
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    may_lack = scope.get("http_version") == "1.0" and scope["path"] in _WITHOUT_HOST
    if len(hosts) > 1 or not (hosts or may_lack):
        raise AccessError(400, "host", "a request must have exactly one Host header")


def _admit(principal: Principal, endpoint: Endpoint) -> None:
    if not principal.may(endpoint.right):
        raise AccessError(403, "role", _may_not(principal, endpoint), principal.id)
    if principal.teams is not None and not endpoint.by_team:
        raise AccessError(403, "scope", _sees_too_much(principal, endpoint), principal.id)


def _may_not(principal: Principal, endpoint: Endpoint) -> str:
    if endpoint is UNKNOWN:
        return f"{principal.words} has nothing at this address"
    return f"{principal.words} may not {endpoint.right.value} here ({endpoint.path})"


def _sees_too_much(principal: Principal, endpoint: Endpoint) -> str:
    teams = ", ".join(sorted(principal.teams or ()))
    if principal.id.startswith(PERSON):
        return f"{endpoint.path} shows all teams, and you see {teams} alone"
    return f"{endpoint.path} shows all teams, and this key is limited to {teams}; use the API below /v1 instead"


_FORWARDING = (b"forwarded", b"via", b"x-real-ip", b"true-client-ip", b"cf-connecting-ip", b"x-client-ip")


def _came_from_here(headers: dict[bytes, bytes]) -> None:
    """Refuse a name that is not this machine's: a page elsewhere could give its own name our address, and read along.

    It is also how many proxies show that they stand before us, and through a proxy anybody could come; others show it
    by a header of who came.
    """
    name = headers.get(b"host", b"").decode("latin-1")
    name = name.partition("]")[0].removeprefix("[") if name.startswith("[") else name.partition(":")[0]
    forwarded = any(header in _FORWARDING or header.startswith(b"x-forwarded-") for header in headers)
    if forwarded or (name and not is_loopback(name)):
        raise AccessError(
            403,
            "host",
            "without keys this server answers to localhost alone; to be reached by another name, or through a proxy, "
            "it needs keys: gpuledger admin access add",
        )


def _problem(error: AccessError) -> ASGIApp:
    # Browsers ask for a password then; any user's name will do.
    asks = {"WWW-Authenticate": 'Basic realm="gpuledger", charset="UTF-8"'} if error.status == 401 else {}
    return problem_response(error.status, str(error), asks, error=str(error), reason=error.reason)
