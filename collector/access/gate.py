"""ASGI middleware before every route: who comes, whether they may, and a note of who read what.

No header but Authorization says who somebody is: what a proxy adds (X-Forwarded-For, Forwarded, X-Remote-User) is not
read, so nobody gains anything by sending it.
"""

from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from collector.access.endpoints import UNKNOWN, Endpoint, endpoint_of
from collector.access.presented import is_one_of, presented
from collector.access.roles import LOOPBACK, SETTINGS, Principal, Right
from collector.access.secret import parsed
from collector.errors import AccessError
from collector.problem import problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from collector.access.access import Access

_SAFE = ("GET", "HEAD", "OPTIONS")
_AUDITED = (Right.READ, Right.CHANGE)


class Gate:
    """Answers 401 to who shows nothing that is known, 403 to who may not; the others pass as `scope["principal"]`."""

    def __init__(self, app: "ASGIApp", access: "Access") -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass the request on, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":  # there is no other way in
            return
        endpoint = endpoint_of(scope["method"], scope["path"])
        try:
            if endpoint.right is not Right.OPEN:
                scope["principal"] = await self._admitted(scope, endpoint)
        except AccessError as refusal:
            self._access.usage.note("refused", refusal.who, scope["method"], endpoint.path)
            await _refusal(refusal)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _admitted(self, scope: "Scope", endpoint: Endpoint) -> Principal:
        headers = dict(scope["headers"])
        principal = await self._who(headers)
        _same_origin(scope["method"], headers)
        if not principal.may(endpoint.right):
            raise AccessError(403, "role", _may_not(principal, endpoint), principal.id)
        if principal.teams is not None and not endpoint.by_team:
            raise AccessError(403, "scope", _sees_too_much(principal, endpoint), principal.id)
        if endpoint.right in _AUDITED:
            self._access.usage.note("read", principal.id, scope["method"], endpoint.path)
        return principal

    async def _who(self, headers: dict[bytes, bytes]) -> Principal:
        if not self._access.asks:
            _named_loopback(headers.get(b"host", b""))
            return LOOPBACK
        shown = presented(headers.get(b"authorization", b""))
        if is_one_of(shown, self._access.tokens):
            return SETTINGS
        key = parsed(shown.decode("latin-1"))
        if key is None:
            raise AccessError(401, "token", "this collector asks for a token; send it as Authorization: Bearer TOKEN")
        if not self._access.directory.knows(key):
            await self._access.directory.hurry()
        principal = self._access.directory.principal(key)
        self._access.usage.key(principal.id)
        return principal


def _may_not(principal: Principal, endpoint: Endpoint) -> str:
    if endpoint is UNKNOWN:
        return f"a key with the role {principal.role} finds nothing at this address"
    return f"a key with the role {principal.role} may not {endpoint.right.value} here ({endpoint.path})"


def _sees_too_much(principal: Principal, endpoint: Endpoint) -> str:
    teams = ", ".join(sorted(principal.teams or ()))
    return f"{endpoint.path} shows all teams, and this key is for {teams} alone; ask the API below /v1 instead"


def _same_origin(method: str, headers: dict[bytes, bytes]) -> None:
    """Refuse a change that a page of another site makes a browser send: it adds a password by itself, and says so."""
    origin = headers.get(b"origin")
    if method not in _SAFE and origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
        raise AccessError(403, "origin", "a page of another site may change nothing here")


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
            "it needs keys: gpuledger access add",
        )


@lru_cache(maxsize=256)  # an agent says the same with every batch
def is_loopback(host: str) -> bool:
    """Return whether a host of an address is this machine alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _refusal(error: AccessError) -> "ASGIApp":
    # Browsers ask for a password then; any user's name will do.
    asks = {"WWW-Authenticate": 'Basic realm="gpuledger", charset="UTF-8"'} if error.status == 401 else {}
    return problem_response(error.status, str(error), asks, error=str(error), reason=error.reason)
