"""GET /v1/capacity-profile: a profile as this collector signs it; `capacity profile --server URL` asks here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import FastAPI, Query
from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from analyzer.capacity.profile.canonical_json import canonical
from analyzer.capacity.profile.facts import CapacityProfile
from analyzer.capacity.profile.gather import Source, capacity_profile
from analyzer.capacity.profile.page import page
from analyzer.capacity.profile.signature import default_key_path, key_at, signed
from analyzer.capacity.profile.work import ProfileRequest
from analyzer.errors import ConfigError, LedgerError
from analyzer.interfaces.api.faults import MeaninglessError
from analyzer.interfaces.api.parameters import Spanned, Text, refusals
from analyzer.ledger.believed import believing
from analyzer.reports.document import iso
from analyzer.reports.reader import Reader
from analyzer.settings.settings import Settings
from collector.store.session import Session

if TYPE_CHECKING:
    from collector.store.database import Store

_PATH = "/v1/capacity-profile"
_RUNS_MOST = 50


class ProfileAsked(Spanned):
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


def add_capacity_profile(app: FastAPI, settings: Settings, store: "Store") -> None:
    """Add the route. The key is made with the first profile that is asked for."""

    @app.get(_PATH, responses=refusals(400, 401, 403, 404, 422, 429, 500, 503), tags=["runs"])
    def profile(asked: Annotated[ProfileAsked, Query()]) -> SignedProfile:
        """A team's work as a signed capacity profile, and as a page."""
        if not (asked.team or asked.project or asked.run):
            raise LedgerError("say of whom: team, project or run")
        secret = key_at(_key_path(settings, store.path))
        with believing(store) as session:
            made = _made(session, settings, asked)
        envelope = signed(made, secret)
        return SignedProfile(profile=canonical(envelope), page=page(envelope, key=secret))


def _made(session: Session, settings: Settings, asked: ProfileAsked) -> CapacityProfile:
    try:
        return capacity_profile(Source(session, settings, Reader(session, settings).advised), _asked(session, asked))
    except ConfigError as error:
        raise MeaninglessError(str(error)) from error
    except (OverflowError, ValueError) as error:
        raise LedgerError(f"the calendar has no {asked.since} {asked.until}") from error


def _asked(session: Session, asked: ProfileAsked) -> ProfileRequest:
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
