"""Log in with a key, once a browser: a page that asks for it, the session that it opens, and the way out.

The session's cookie goes along when a link in a mail or chat is followed (SameSite=Lax): with Strict, whoever comes by
one would have to log in again. Nothing is changed by following a link, and each change shows a token of its session.
"""

import hmac
import math
import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from collector.access.gate import FIELD, SAFE, body_of, endpoint_of, fields_of, is_form, same_site
from collector.access.secret import COOKIE, LASTING_SECONDS, SECURE_COOKIE, Session, cookie_of
from collector.errors import AccessError
from collector.registry.roles import SETTINGS, Principal, Right
from dashboards.pages.frame import STRICT, Frame

if TYPE_CHECKING:
    from collector.access.access import Access

_PATH, _FIRST, _FIRST_OF_A_TEAM = "/login", "/", "/money"
_HEADERS = STRICT | {"Cache-Control": "no-store"}
_ASKED_COOKIE = "gpuledger_login"  # what shows that the form came from our page, before there is a session
_ASKED_SECONDS = 3600
_NEXT_LETTERS = 2000
_SEE_OTHER, _UNKNOWN, _FORBIDDEN, _TOO_MANY = 303, 401, 403, 429


class Login:
    """The door for people of one server. `site_url` is where they reach it, also where a proxy stands before it."""

    def __init__(self, access: "Access", frame: Frame, site_url: str) -> None:
        self._access = access
        self._frame = frame
        access.to_people, access.comes_by_tls = self.refusal, site_url.startswith("https://")
        if site_url:
            access.public_origin = "://".join(urlsplit(site_url)[:2]).lower().encode()

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter()

        @router.get(_PATH)
        def ask(request: Request, next: str = _FIRST, ended: bool = False) -> Response:  # noqa: A002 - the address's word
            if not self._access.asks:
                return RedirectResponse(inside(next), _SEE_OTHER)
            if (session := self._session(request)) is not None:
                return self._account(session)
            return self._form(request, inside(next), "Your session has ended." if ended else "")

        @router.post(_PATH)
        async def enter(request: Request) -> Response:
            return await self._enter(request)

        @router.post("/logout")
        def leave(request: Request) -> Response:
            self._access.sessions.end(self._shown(request))
            answer = RedirectResponse(_PATH, _SEE_OTHER, _HEADERS)
            answer.delete_cookie(self._cookie(request), secure=self._is_secure(request), httponly=True, samesite="lax")
            return answer

        return router

    def refusal(self, scope: Scope, error: AccessError) -> ASGIApp | None:
        """Return what a person is told whom the gate refuses; None for a program."""
        headers = dict(scope["headers"])
        if b"text/html" not in headers.get(b"accept", b"") or b"authorization" in headers:
            return None
        if error.status != _UNKNOWN:
            ways = () if error.reason == "scope" else None
            page = self._frame.render("refused.html", confined_to=ways, message=f"{error}.")
            return HTMLResponse(page, error.status, _HEADERS)
        asked = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
        words = {"next": asked} if scope["method"] in SAFE else {}
        if cookie_of(headers.get(b"cookie", b"")):
            words["ended"] = "true"
        return RedirectResponse(f"{_PATH}?{urlencode(words)}" if words else _PATH, _SEE_OTHER, _HEADERS)

    async def _enter(self, request: Request) -> Response:
        headers = dict(request.scope["headers"])
        address = request.client.host if request.client is not None else ""
        fields: dict[str, str] = {}
        try:
            same_site(request.method, headers, self._access.public_origin)
            fields = fields_of(await body_of(request.receive)) if is_form(headers) else {}
            _from_our_page(headers, fields)
            if wait := self._access.attempts.wait_seconds(address):
                raise AccessError(_TOO_MANY, "attempts", f"Too many invalid keys: retry in {math.ceil(wait)} s")
            principal = await self._holder(fields.get("key", "").strip())
        except AccessError as error:
            if error.reason not in ("attempts", "registry"):
                self._access.attempts.failed(address)
            self._access.usage.note("refused", error.who, request.method, _PATH)
            return self._form(request, inside(fields.get("next", "")), _sentence(error), error.status)
        self._access.usage.note("read", principal.id, request.method, _PATH)
        return self._entered(request, principal, inside(fields.get("next", "")))

    async def _holder(self, shown: str) -> Principal:
        principal = await self._access.holder(shown.encode())
        if not principal.may(Right.READ):
            told = f"a key with the role {principal.role} cannot open pages: create one with --role read"
            raise AccessError(_FORBIDDEN, "role", told, principal.id)
        return principal

    def _entered(self, request: Request, principal: Principal, wanted: str) -> Response:
        self._access.sessions.end(self._shown(request))
        cookie = self._access.sessions.begin(None if principal.id == SETTINGS.id else principal.id)
        answer = RedirectResponse(_first(principal, wanted), _SEE_OTHER, _HEADERS)
        answer.set_cookie(
            self._cookie(request),
            cookie,
            max_age=int(LASTING_SECONDS),
            secure=self._is_secure(request),
            httponly=True,
            samesite="lax",
        )
        return answer

    def _form(self, request: Request, wanted: str, told: str, status: int = 200) -> Response:
        asked = secrets.token_urlsafe()
        page = self._frame.render("login.html", ways=(), asks=False, told=told, wanted=wanted, csrf=asked)
        answer = HTMLResponse(page, status, _HEADERS)
        answer.set_cookie(
            _ASKED_COOKIE,
            asked,
            max_age=_ASKED_SECONDS,
            path=_PATH,
            secure=self._is_secure(request),
            httponly=True,
            samesite="strict",
        )
        if status == _TOO_MANY:
            answer.headers["Retry-After"] = "60"
        return answer

    def _account(self, session: Session) -> Response:
        who = self._access.logged_in(session)
        page = self._frame.render("account.html", confined_to=who.teams, who=who, csrf=session.token)
        return HTMLResponse(page, headers=_HEADERS)

    def _session(self, request: Request) -> Session | None:
        """Return the session of who comes, as long as its key opens something."""
        session = self._access.sessions.of(self._shown(request))
        if session is None:
            return None
        try:
            self._access.logged_in(session)
        except AccessError:
            return None
        return session

    def _is_secure(self, request: Request) -> bool:
        return self._access.comes_by_tls or request.url.scheme == "https"

    def _shown(self, request: Request) -> str:
        """Return what the browser's cookie says: of TLS that one alone which only TLS can have set."""
        name = SECURE_COOKIE if self._is_secure(request) else None
        return cookie_of(request.headers.get("cookie", "").encode("latin-1"), name)

    def _cookie(self, request: Request) -> str:
        return SECURE_COOKIE if self._is_secure(request) else COOKIE


def inside(address: str) -> str:
    """Return an address of ours that somebody is sent on to; the first page where it leads elsewhere.

    Browsers drop blanks and control characters from addresses, and take a backslash for a slash.
    """
    is_ours = address.startswith("/") and not address.startswith("//") and len(address) <= _NEXT_LETTERS
    return address if is_ours and address.isascii() and address.isprintable() and "\\" not in address else _FIRST


def _first(principal: Principal, wanted: str) -> str:
    """Return where somebody goes who has logged in: where they wanted to, if their key may see it."""
    endpoint = endpoint_of("GET", urlsplit(wanted).path)
    if not principal.may(endpoint.right) or (principal.teams is not None and not endpoint.by_team):
        return _FIRST if principal.teams is None else _FIRST_OF_A_TEAM
    return wanted


def _from_our_page(headers: dict[bytes, bytes], fields: dict[str, str]) -> None:
    asked = cookie_of(headers.get(b"cookie", b""), _ASKED_COOKIE)
    if not asked or not hmac.compare_digest(asked.encode(), fields.get(FIELD, "").encode()):
        raise AccessError(_FORBIDDEN, "csrf", "this form has expired, or came from another site: try again")


def _sentence(error: AccessError) -> str:
    if error.reason == "token":
        return "This key is not valid here: it is mistyped, unknown, or was revoked."
    words = str(error)
    return f"{words[0].upper()}{words[1:]}."
