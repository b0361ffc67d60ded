"""Log in once a browser: with a key, or as a person by the site's provider; the session, and the way out.

Who a person is, the provider says (oidc.py); what they may see, the first of their groups that [oidc] names.

Beside it the one other door that no key opens: the link of a mail that stops that mail.

The session's cookie goes along when a link in a mail or chat is followed (SameSite=Lax): with Strict, whoever comes by
one would have to log in again. Nothing is changed by following a link, and each change shows a token of its session.
"""

import base64
import hmac
import json
import logging
import math
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from agent.wire.bounded import json_said
from analyzer.interfaces.mail.editions import known_subscription, masked, stop
from analyzer.text.templating import environment_of
from collector.access.access import Access
from collector.access.gate import FIELD, SAFE, body_of, endpoint_of, fields_of, is_form, same_site
from collector.access.secret import COOKIE, LASTING_SECONDS, PERSON_SECONDS, SECURE_COOKIE, Session, cookie_of
from collector.errors import AccessError, RegistryError
from collector.registry import Mails
from collector.registry.roles import PERSON, SETTINGS, Principal, Right
from dashboards.pages.frame import OWN, SECURITY, STRICT, Frame
from dashboards.server.sign_in import Begun, Grant, Provider, principal_of

_PATH, _FIRST, _FIRST_OF_A_TEAM = "/login", "/", "/money"
_HEADERS = STRICT | {"Cache-Control": "no-store"}
_ASKED_COOKIE = "gpuledger_login"  # what shows that the form came from our page, before there is a session
_ASKED_SECONDS = 3600
_NEXT_LETTERS = 2000
_SEE_OTHER, _UNKNOWN, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _UNAVAILABLE = 303, 401, 403, 404, 429, 503
_LOG = logging.getLogger(__name__)

_AT_ONCE = 4  # sign-ins that wait for the provider; those who come then are asked to try again
_BEGUN_COOKIE, _SECURE_BEGUN_COOKIE = "gpuledger_signin", "__Host-gpuledger_signin"
_BEGUN_SECONDS = 600


class Login:
    """The door for people of one server. `site_url` is where they reach it, also where a proxy stands before it."""

    def __init__(
        self,
        access: Access,
        frame: Frame,
        site_url: str,
        provider: Provider | None = None,
        grants: Mapping[str, Grant] | None = None,
    ) -> None:
        self._access = access
        self._frame = frame
        self._provider, self._grants = provider, grants or {}
        self._prefix = urlsplit(site_url).path
        self._waiting = threading.BoundedSemaphore(_AT_ONCE)
        access.signs_in = provider is not None
        access.to_people, access.comes_by_tls = self.refusal, site_url.startswith("https://")
        if site_url:
            access.public_origin = "://".join(urlsplit(site_url)[:2]).lower().encode()

    def router(self) -> APIRouter:
        """Return the routes."""
        router = APIRouter()

        @router.get(_PATH)
        def ask(request: Request, next: str = _FIRST, ended: bool = False, out: bool = False) -> Response:  # noqa: A002 - the address's words
            if not self._access.asks:
                return RedirectResponse(inside(next), _SEE_OTHER)
            if (session := self._session(request)) is not None:
                return self._account(session)
            told = "Your session has ended. What you had written is kept in this tab." if ended else ""
            return self._form(request, inside(next), told, is_out=out)

        @router.post(_PATH)
        async def enter(request: Request) -> Response:
            return await self._enter(request)

        @router.get(f"{_PATH}/start")
        def start(request: Request, next: str = _FIRST) -> Response:  # noqa: A002 - the address's word
            return self._start(request, inside(next))

        @router.get(f"{_PATH}/callback")
        def back(request: Request) -> Response:
            return self._back(request)

        @router.get("/mine")
        def mine(request: Request) -> Response:
            principal: Principal = request.scope["principal"]
            own = f"/runs?{urlencode({'user': principal.user})}" if principal.user else _PATH
            return RedirectResponse(own, _SEE_OTHER, _HEADERS)

        @router.post("/logout")
        def leave(request: Request) -> Response:
            session = self._access.sessions.of(self._shown(request))
            self._access.sessions.end(self._shown(request))
            is_person = session is not None and session.person is not None
            answer = RedirectResponse(f"{_PATH}?out=true" if is_person else _PATH, _SEE_OTHER, _HEADERS)
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
        words = {"next": asked if scope["method"] in SAFE else self._page_of(headers)}
        if cookie_of(headers.get(b"cookie", b"")):
            words["ended"] = "true"
        return RedirectResponse(f"{_PATH}?{urlencode(words)}", _SEE_OTHER, _HEADERS)

    def _page_of(self, headers: dict[bytes, bytes]) -> str:
        """Return the page whose form was sent, to come back to it: what its browser says, where that is one of ours."""
        parts = urlsplit(headers.get(b"referer", b"").decode("latin-1"))
        origin = f"{parts.scheme}://{parts.netloc}".lower().encode()
        if origin != self._access.public_origin and parts.netloc.encode() != headers.get(b"host"):
            return _FIRST
        path = parts.path
        if self._prefix and (path == self._prefix or path.startswith(f"{self._prefix}/")):
            path = path[len(self._prefix) :] or _FIRST
        return inside(f"{path}?{parts.query}" if parts.query else path)

    def _start(self, request: Request, wanted: str) -> Response:
        """Send a browser to the provider, with what must fit the answer in a cookie of this sign-in alone."""
        if self._provider is None:
            return RedirectResponse(_PATH, _SEE_OTHER, _HEADERS)
        try:
            with self._turn(request):
                begun = self._provider.begin()
        except AccessError as error:
            return self._refused(request, wanted, error)
        kept = json.dumps([begun.state, begun.nonce, begun.verifier, wanted])
        answer = RedirectResponse(begun.url, _SEE_OTHER, _HEADERS | {"Referrer-Policy": "no-referrer"})
        answer.set_cookie(
            self._begun_cookie(request),
            base64.urlsafe_b64encode(kept.encode()).decode(),
            max_age=_BEGUN_SECONDS,
            secure=self._is_secure(request),
            httponly=True,
            samesite="lax",  # it comes back by a link of the provider's
        )
        return answer

    def _back(self, request: Request) -> Response:
        """Open the session of who comes back from the provider, and the page that they had asked for."""
        kept = cookie_of(request.headers.get("cookie", "").encode("latin-1"), self._begun_cookie(request))
        wanted = _FIRST
        try:
            with self._turn(request) as provider:
                begun, wanted = _begun(kept)
                person = provider.finish(begun, dict(request.query_params))
                principal = principal_of(person, self._grants, provider.name)
        except AccessError as error:
            answer = self._refused(request, wanted, error)
        else:
            _LOG.info("%s signed in as %s: %s", principal.id, principal.name, _sees(principal))
            self._access.usage.note("read", principal.id, request.method, _PATH)
            answer = self._entered(request, principal, wanted)
        answer.delete_cookie(
            self._begun_cookie(request), secure=self._is_secure(request), httponly=True, samesite="lax"
        )
        return answer

    @contextmanager
    def _turn(self, request: Request) -> Iterator[Provider]:
        """Let an address that has failed too often wait, and no more than a few ask the provider at once.

        Raises:
            AccessError: 429 or 503.
        """
        address = request.client.host if request.client is not None else ""
        if self._provider is None:
            raise AccessError(_FORBIDDEN, "sign_in", "nobody signs in here without a key")
        if wait := self._access.attempts.wait_seconds(address):
            raise AccessError(_TOO_MANY, "attempts", f"too many failed sign-ins: retry in {math.ceil(wait)} s")
        if not self._waiting.acquire(blocking=False):
            raise AccessError(_UNAVAILABLE, "provider", "others are signing in: retry in a few seconds")
        try:
            yield self._provider
        except AccessError as error:
            if error.reason == "sign_in":
                self._access.attempts.failed(address)
            raise
        finally:
            self._waiting.release()

    def _refused(self, request: Request, wanted: str, error: AccessError) -> Response:
        _LOG.warning("a sign-in was refused: %s", error)
        self._access.usage.note("refused", error.who, request.method, _PATH)
        return self._form(request, wanted, _sentence(error), error.status)

    def _begun_cookie(self, request: Request) -> str:
        return _SECURE_BEGUN_COOKIE if self._is_secure(request) else _BEGUN_COOKIE

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
        person = principal if principal.id.startswith(PERSON) else None
        cookie = self._access.sessions.begin(None if principal.id == SETTINGS.id else principal.id, person)
        answer = RedirectResponse(_first(principal, wanted), _SEE_OTHER, _HEADERS)
        answer.set_cookie(
            self._cookie(request),
            cookie,
            max_age=int(LASTING_SECONDS if person is None else PERSON_SECONDS),
            secure=self._is_secure(request),
            httponly=True,
            samesite="lax",
        )
        return answer

    def _form(self, request: Request, wanted: str, told: str, status: int = 200, *, is_out: bool = False) -> Response:
        asked, provider = secrets.token_urlsafe(), self._provider
        page = self._frame.render(
            "login.html",
            ways=(),
            asks=False,
            told=told,
            wanted=wanted,
            csrf=asked,
            provider=provider.name if provider is not None else None,
            start=f"{_PATH}/start?{urlencode({'next': wanted})}",
            is_out=is_out,
            sign_out_url=provider.sign_out_url if provider is not None and is_out else None,
        )
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
        is_person = session.person is not None
        page = self._frame.render(
            "account.html", confined_to=who.teams, who=who, csrf=session.token, is_person=is_person
        )
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
    """Return where somebody goes who has logged in: where they wanted to, if they may; without a wish to their runs."""
    if wanted == _FIRST and principal.user:
        return "/mine"
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


def _begun(cookie: str) -> tuple[Begun, str]:
    """Return what a browser has kept of its sign-in, and where it wants to.

    Raises:
        AccessError: 403, it has kept none that can be read.
    """
    try:
        said = json_said(base64.urlsafe_b64decode(cookie.encode()))
    except ValueError:
        said = None
    if not isinstance(said, list) or len(said) != 4 or not all(isinstance(each, str) and each for each in said):
        told = "this sign-in began more than ten minutes ago, or under another address: sign in again"
        raise AccessError(_FORBIDDEN, "sign_in", told)
    return Begun("", *said[:3]), inside(said[3])


def _sees(principal: Principal) -> str:
    teams = "the whole site" if principal.teams is None else ", ".join(sorted(principal.teams))
    return f"{principal.role} of {teams}"


# A page of its own: it may send its one form to us, and nothing else; no search engine lists it, no cache keeps it.
_STOP_HEADERS = SECURITY | {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
}
_NONE_OF_OURS = (
    "This link is not valid: it is incomplete, or belongs to another server. Write to the address in the mail."
)


def mail_stop_routes(mails: Mails) -> APIRouter:
    """Return the two routes that stop the weekly e-mail by its link: a page that asks, and the POST that does it.

    Mail scanners follow every link, so the GET changes nothing (RFC 8058, one click). The token of the link is the key.
    """
    router = APIRouter()
    environment = environment_of(OWN)

    def page(text: str, *, asks: bool = False, status: int = 200) -> Response:
        shown = environment.get_template("mail_stop.html").render(text=text, asks=asks)
        return HTMLResponse(shown, status_code=status, headers=_STOP_HEADERS)

    # Plain functions, which run on a thread: the registry may be a database elsewhere.
    @router.get("/mail/stop/{token}")
    def ask(token: str) -> Response:
        try:
            found = known_subscription(mails, token)
        except RegistryError:
            return page("This cannot be looked up now. Retry in a minute.", status=_UNAVAILABLE)
        if found is None:
            return page(_NONE_OF_OURS, status=_NOT_FOUND)
        if found.stopped_at is not None:
            return page(f"The weekly e-mail to {masked(found.address)} is stopped.")
        return page(f"Stop the weekly e-mail to {masked(found.address)}?", asks=True)

    @router.post("/mail/stop/{token}")
    def do(token: str) -> Response:
        try:
            found = stop(mails, token)
        except RegistryError:
            return page("It could not be stopped now. Retry in a minute.", status=_UNAVAILABLE)
        if found is None:
            return page(_NONE_OF_OURS, status=_NOT_FOUND)
        return page(
            f"Done: {masked(found.address)} no longer gets this weekly e-mail. "
            "An administrator of gpuledger can start it again."
        )

    return router
