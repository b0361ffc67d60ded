"""ASGI middleware before every route: who comes, whether they may, and a note of who read what.

Authorization says who somebody is, or the cookie of a browser that has logged in (sessions.py). What a proxy adds
(X-Forwarded-For, Forwarded, X-Remote-User) is not read, so nobody gains anything by sending it.
"""

from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from collector.access.endpoints import UNKNOWN, Endpoint, endpoint_of
from collector.access.forms import is_form, own_change, same_site
from collector.access.presented import presented
from collector.access.sessions import SECURE_COOKIE, cookie_of
from collector.errors import AccessError
from collector.problem import problem_response
from collector.registry.roles import LOOPBACK, SETTINGS, Principal, Right

if TYPE_CHECKING:
    from collector.access.access import Access

_WITHOUT_HOST = ("/healthz", "/readyz")
_AUDITED = (Right.READ, Right.CHANGE)


class Gate:
    """Answers 401 to who shows nothing that is known, 403 to who may not; the others pass as `scope["principal"]`.

    `named` returns the route that a method and a path are for; a server with routes of its own brings its own table.
    """

    def __init__(self, app: ASGIApp, access: "Access", named: Callable[[str, str], Endpoint] = endpoint_of) -> None:
        self._app = app
        self._access = access
        self._named = named

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":  # there is no other way in
            return
        endpoint = self._named(scope["method"], scope["path"])
        headers = dict(scope["headers"])
        try:
            _one_host(scope)
            if endpoint.right is not Right.OPEN:
                is_secure = self._access.comes_by_tls or scope.get("scheme") == "https"
                principal, token = await self._who(headers, is_secure=is_secure)
                _admit(principal, scope["method"], headers, endpoint)
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
            _named_loopback(headers.get(b"host", b""))
            return LOOPBACK, None
        session = None
        name = SECURE_COOKIE if is_secure else None
        if b"authorization" not in headers and (cookie := cookie_of(headers.get(b"cookie", b""), name)):
            session = access.sessions.of(cookie)
        if session is None:
            principal = await access.holder(presented(headers.get(b"authorization", b"")))
        else:
            principal = access.logged_in(session)
        if principal.id != SETTINGS.id:
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
        raise AccessError(400, "host", "a request says in one Host header which host it is for")


def _admit(principal: Principal, method: str, headers: dict[bytes, bytes], endpoint: Endpoint) -> None:
    same_site(method, headers)
    if not principal.may(endpoint.right):
        raise AccessError(403, "role", _may_not(principal, endpoint), principal.id)
    if principal.teams is not None and not endpoint.by_team:
        raise AccessError(403, "scope", _sees_too_much(principal, endpoint), principal.id)


def _may_not(principal: Principal, endpoint: Endpoint) -> str:
    if endpoint is UNKNOWN:
        return f"a key with the role {principal.role} finds nothing at this address"
    return f"a key with the role {principal.role} may not {endpoint.right.value} here ({endpoint.path})"


def _sees_too_much(principal: Principal, endpoint: Endpoint) -> str:
    teams = ", ".join(sorted(principal.teams or ()))
    return f"{endpoint.path} shows all teams, and this key is for {teams} alone; ask the API below /v1 instead"


def _named_loopback(host: bytes) -> None:
    """Refuse a name that is not this machine's: a page elsewhere could give its own name our address, and read along.

    It is also how many proxies show that they stand before us, and through a proxy anybody could come.
    """
    name = host.decode("latin-1")
    name = name.partition("]")[0].removeprefix("[") if name.startswith("[") else name.partition(":")[0]
    if name and not is_loopback(name):
        raise AccessError(
            403,
            "host",
            "without keys this server answers to localhost alone; to be reached by another name, or through a proxy, "
            "it needs keys: gpuledger admin access add",
        )


@lru_cache(maxsize=256)  # an agent says the same with every batch
def is_loopback(host: str) -> bool:
    """Return whether a host of an address is this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _problem(error: AccessError) -> ASGIApp:
    # Browsers ask for a password then; any user's name will do.
    asks = {"WWW-Authenticate": 'Basic realm="gpuledger", charset="UTF-8"'} if error.status == 401 else {}
    return problem_response(error.status, str(error), asks, error=str(error), reason=error.reason)
