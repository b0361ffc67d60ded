"""Stop the weekly e-mail by its link: a page that asks, and the POST that does it (RFC 8058, one click, no login).

Mail scanners follow every link, so the GET changes nothing. No key is asked for: the token is one (unsubscribe.py).
"""

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from analyzer.interfaces.mail.editions import known_subscription, masked, stop
from analyzer.text.templating import environment_of
from collector.errors import RegistryError
from collector.registry import Mails
from dashboards.pages.frame import OWN, SECURITY

# A page of its own: it may send its one form to us, and nothing else; no search engine lists it, no cache keeps it.
_HEADERS = SECURITY | {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex",
}
_NOT_FOUND, _UNAVAILABLE = 404, 503
_NONE_OF_OURS = (
    "This link is not valid: it is incomplete, or belongs to another server. Write to the address in the mail."
)


def mail_stop_routes(mails: Mails) -> APIRouter:
    """Return the two routes."""
    router = APIRouter()
    environment = environment_of(OWN)

    def page(text: str, *, asks: bool = False, status: int = 200) -> Response:
        shown = environment.get_template("mail_stop.html").render(text=text, asks=asks)
        return HTMLResponse(shown, status_code=status, headers=_HEADERS)

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
