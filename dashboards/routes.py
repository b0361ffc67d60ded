"""GET and PUT /v1/prices: an admin reads the price file and puts another in its place; the audit says who."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import run_in_threadpool

from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.gather import Source, capacity_profile
from analyzer.capacity.profile.page import page
from analyzer.capacity.profile.signature import default_key_path, key_at, signed
from analyzer.capacity.profile.work import ProfileRequest
from analyzer.errors import ConfigError, LedgerError, StaleError
from analyzer.interfaces.api.parameters import MeaninglessError, Spanned, Text, refusals
from analyzer.interfaces.doctor.examination import Examination, document, examination, looked_at
from analyzer.interfaces.doctor.sight import Live, MailSight, Section, Sight
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.ledger.believed import believing
from analyzer.prices.price_book import MAX_BYTES, PriceFile, PriceFileState
from analyzer.reports.document import iso
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from collector.access.access import Access
from collector.config import CollectorConfig
from collector.errors import RegistryError
from collector.problem import problem_response
from collector.registry import AccessKey, Send
from collector.registry.audit import AuditEntry
from collector.registry.roles import Principal
from collector.store.database import Store
from collector.store.session import Session

_PATH = "/v1/prices"
_TOML = "application/toml"
_NONE = "no price file is configured: set prices of [analyzer], and restart the server"
_DOCUMENTED = {_TOML: {"schema": {"type": "string"}}}
_PUT: dict[str, Any] = {
    "requestBody": {"required": True, "content": _DOCUMENTED},
    "parameters": [{"name": "If-Match", "in": "header", "required": True, "schema": {"type": "string"}}],
}


def add_prices(app: FastAPI, settings: Settings) -> None:
    """Add the two routes."""
    kept = None if settings.prices is None else PriceFile(settings.prices, settings.currency)

    @app.get(_PATH, response_class=Response, responses={200: {"content": _DOCUMENTED}, **refusals(400, 409)})
    def prices() -> Response:
        """Return the price file; its ETag is what PUT asks for."""
        return problem_response(HTTPStatus.CONFLICT, _NONE) if kept is None else _answer(kept.told())

    @app.put(
        _PATH,
        response_class=Response,
        responses={200: {"content": _DOCUMENTED}, **refusals(400, 409, 412, 413, 415, 428)},
        openapi_extra=_PUT,
    )
    async def put_prices(request: Request) -> Response:
        """Put another price file in the place of the one whose ETag If-Match names; hours are priced anew from it."""
        if kept is None:
            return problem_response(HTTPStatus.CONFLICT, _NONE)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TOML:
            return problem_response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send the file as Content-Type: {_TOML}")
        if (tag := request.headers.get("if-match", "").strip().removeprefix("W/").strip('"')) == "":
            sentence = "name the prices to replace with If-Match: the ETag of GET"
            return problem_response(HTTPStatus.PRECONDITION_REQUIRED, sentence)
        content = await _content(request)
        if content is None:
            sentence = f"the maximum size of a price file is {MAX_BYTES:,} bytes"
            return problem_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
        return await run_in_threadpool(_put, app, kept, content, tag, request.scope["principal"])


def _put(app: FastAPI, kept: PriceFile, content: bytes, tag: str, who: Principal) -> Response:
    """Write it down first: an entry of a change that then failed is better than a change that nobody made."""

    def noted(now: PriceFileState, then: PriceFileState) -> None:
        detail = f"from version {now.version} to {then.version}"
        entry = AuditEntry(time.time_ns() // 1000, "change", who.id, "prices", kept.path.name, detail)
        app.state.access.registry.audit.add([entry])

    try:
        return _answer(kept.put(content, tag, noted))
    except StaleError as error:
        return problem_response(HTTPStatus.PRECONDITION_FAILED, str(error))
    except LedgerError as error:
        return problem_response(HTTPStatus.CONFLICT, str(error))


async def _content(request: Request) -> bytes | None:
    """Return the body, or None where it is too large; no more of it is kept then."""
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BYTES:
            return None
    return content


def _answer(told: PriceFileState) -> Response:
    headers = {"ETag": f'"{told.tag}"', "X-Price-Version": told.version, "Cache-Control": "no-store"}
    return Response(told.content, media_type=_TOML, headers=headers)


@dataclass(slots=True)
class Doctor:
    """Examines one server's store; `live` is asked at each examination."""

    access: Access
    config: CollectorConfig
    settings: Settings
    store: Store
    live: Callable[[], Live]
    mail: MailSettings
    is_simulated: bool = False
    last: Examination | None = None  # with the ledger: that is read whole, and not for every reader of a page

    def examined(self) -> Examination:
        """Look at everything once: the ledger's invariants, the files, the agents, the disk, keys and jobs.

        Raises:
            StoreError: the ledger cannot be read at all.
        """
        with believing(self.store) as session:
            self.last = examination(self._sight(session))
            return self.last

    def looked_at(self) -> tuple[Section, ...]:
        """Return what can be said at once, of everything but the ledger."""
        with believing(self.store) as session:
            return looked_at(self._sight(session))

    def _sight(self, session: Session) -> Sight:
        keys, sends = _registered(self.access)
        now, mail = time.time_ns() // 1000, MailSight(self.mail, sends)
        store, settings, config = self.store, self.settings, self.config
        return Sight(store, session, settings, config, now, keys, self.live(), mail, self.is_simulated)


def add_doctor(app: FastAPI, examiner: Doctor) -> None:
    """Add the route. Readers may ask, so nobody is called on for them."""

    @app.get("/v1/doctor", responses=refusals(401, 403, 429, 500, 503))
    def doctor() -> dict[str, Any]:
        """Examine the store: the ledger's invariants, the files, the agents, the disk, keys and jobs."""
        return document(examiner.examined())


def _registered(access: Access) -> tuple[tuple[AccessKey, ...] | None, tuple[Send, ...] | None]:
    try:
        return tuple(access.registry.keys.listed()), tuple(access.registry.mails.sends())
    except RegistryError:
        return None, None


_PROFILE_PATH = "/v1/capacity-profile"
_RUNS_MOST = 50


class _ProfileAsked(Spanned):
    """Of whom, of which runs, of when. One of team, project and run must be there."""

    team: Text | SkipJsonSchema[None] = None
    project: Text | SkipJsonSchema[None] = None
    run: Annotated[list[Text], Field(max_length=_RUNS_MOST)] = Field(
        [], description="Ids, unique ends of them, or names; without any the largest of the period are taken."
    )


class SignedProfile(BaseModel):
    """The two files. Write them as they are: a signature holds for one spelling alone."""

    profile: str = Field(description="The signed JSON, docs/profile.schema.json.")
    page: str = Field(description="The same as a self-contained page.")


def add_capacity_profile(app: FastAPI, settings: Settings, store: Store) -> None:
    """Add the route. The key is made with the first profile that is asked for."""

    @app.get(_PROFILE_PATH, responses=refusals(400, 401, 403, 404, 422, 429, 500, 503), tags=["runs"])
    def profile(asked: Annotated[_ProfileAsked, Query()]) -> SignedProfile:
        """A team's work as a signed capacity profile, and as a page."""
        if not (asked.team or asked.project or asked.run):
            raise LedgerError("say of whom: team, project or run")
        secret = key_at(_key_path(settings, store.path))
        with believing(store) as session:
            made = _profile(session, settings, asked)
        envelope = signed(made, secret)
        return SignedProfile(profile=canonical(envelope), page=page(envelope, key=secret))


def _profile(session: Session, settings: Settings, asked: _ProfileAsked) -> CapacityProfile:
    try:
        return capacity_profile(
            Source(session, settings, Reader(session, settings).advised), _profile_request(session, asked)
        )
    except ConfigError as error:
        raise MeaninglessError(str(error)) from error
    except (OverflowError, ValueError) as error:
        raise LedgerError(f"the calendar has no {asked.since} {asked.until}") from error


def _profile_request(session: Session, asked: _ProfileAsked) -> ProfileRequest:
    since, until = asked.since, asked.until
    if since is None and until is not None:
        (first,) = session.row("SELECT min(hour) FROM ledger_hours")
        since = None if first is None else iso(first)
    return ProfileRequest(asked.team, asked.project, tuple(asked.run), since, until)


def _key_path(settings: Settings, store: Path | None) -> Path:
    if settings.profile_key is not None:
        return settings.profile_key
    if store is None:
        raise ConfigError("a store in memory has no place for a key: name profile_key in the settings")
    return default_key_path(store)
