"""Who may sign in, and as what: the table [oidc] of the settings gives groups of the site's provider their roles.

Loads nothing that speaks to the provider: oidc.py does, where the table is set.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from agent.connection import is_loopback
from agent.log_format import never_say
from analyzer.errors import ConfigError
from analyzer.settings.settings import proxy_address, web_address
from analyzer.settings.toml_model import SettingsTable, about, secret_text
from collector.errors import AccessError
from collector.registry.roles import PERSON_ROLES, TEAM_ROLES, KeyRole, Principal

_FORBIDDEN = 403
_TABLE = "oidc"
_GRANT = re.compile(r"(?P<role>[a-z]+)(?: of (?P<teams>.+))?")
_GROUPS_SHOWN = 20


def is_sealed(address: str) -> bool:
    """Return whether nobody on the way reads what goes to an address: it is of https, or of this machine."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


@dataclass(frozen=True, slots=True)
class Grant:
    """What a group may: a role, of some teams or (None) of all."""

    role: KeyRole
    teams: frozenset[str] | None

    @classmethod
    def parse(cls, group: str, text: str) -> "Grant":
        """Return what a text such as "owner of vision, speech" grants.

        Raises:
            ConfigError: it is none.
        """
        found = _GRANT.fullmatch(text.strip())
        role = next((one for one in PERSON_ROLES if found and one == found["role"]), None)
        teams = frozenset(one.strip() for one in (found["teams"] or "").split(",") if one.strip()) if found else None
        if role is None:
            known = ", ".join(PERSON_ROLES)
            raise ConfigError(
                f'[{_TABLE}] groups: {group!r} is {text!r}: write one of {known}, or "owner of vision, speech"'
            )
        if teams and role not in TEAM_ROLES:
            raise ConfigError(f"[{_TABLE}] groups: {group!r} is {text!r}: the role {role} belongs to no team")
        return cls(role, teams or None)


@dataclass(frozen=True, slots=True)
class OidcSettings(SettingsTable):
    """Every key with its default and its help; docs/settings.md is tested against it."""

    table = _TABLE

    issuer: str = field(
        default="", metadata=about("the provider, as it calls itself: https://id.example/realms/hpc; empty: keys alone")
    )
    client_id: str = field(default="", metadata=about("what the provider calls gpuledger"))
    client_secret_file: Path | None = field(
        default=None,
        metadata=about("file with the client's secret, which must not be in the settings; none: PKCE alone"),
    )
    scopes: tuple[str, ...] = field(
        default=("profile", "email"), metadata=about("what is asked for beside openid; some providers want groups too")
    )
    groups_claim: str = field(
        default="groups", metadata=about("the claim that names a person's groups, such as realm_access.roles")
    )
    user_claim: str = field(
        default="preferred_username", metadata=about("the claim that is the user of a person's runs")
    )
    ca: Path | None = field(
        default=None, metadata=about("file with the CA certificates to trust, instead of the system's")
    )
    proxy: str = field(
        default="",
        metadata=about("proxy to the provider, http://proxy:3128; empty: none, regardless of the environment"),
    )
    groups: Mapping[str, str] = field(
        default_factory=dict,
        metadata=about(
            'the role of each group, and of which teams: { hpc-admins = "admin", nlp = "owner of nlp, speech" }; the '
            "first that a person is in counts"
        ),
    )

    def __post_init__(self) -> None:
        if not self.issuer:
            return
        web_address(f"[{_TABLE}] issuer", self.issuer, is_base=False)
        if not is_sealed(self.issuer) or urlsplit(self.issuer).query:
            raise ConfigError(f"[{_TABLE}] issuer is {self.issuer!r}: it must begin with https:// and have no query")
        if not self.client_id:
            raise ConfigError(f"[{_TABLE}] client_id is missing: the provider gives it where gpuledger is registered")
        if not self.groups:
            raise ConfigError(f"[{_TABLE}] groups is missing: without it nobody who signs in may see anything")
        if self.proxy:
            object.__setattr__(self, "proxy", proxy_address(f"[{_TABLE}] proxy", self.proxy, self.issuer))
        self.grants  # noqa: B018  a bad one is found at the start
        self.secret()

    @property
    def grants(self) -> dict[str, Grant]:
        """What each group may, in the order of the settings."""
        return {group: Grant.parse(group, text) for group, text in self.groups.items()}

    @property
    def has_secret(self) -> bool:
        """Whether the provider gave a secret: a client without one has PKCE alone."""
        return self.client_secret_file is not None

    def secret(self) -> str:
        """Return the client's secret, read from its file each time; empty where there is none.

        Raises:
            ConfigError: the file cannot be read, or is empty; what it holds is never told.
        """
        if self.client_secret_file is None:
            return ""
        text = secret_text(_TABLE, "client_secret_file", self.client_secret_file).strip()
        if not text:
            raise ConfigError(f"[{_TABLE}] client_secret_file {self.client_secret_file} is empty")
        never_say(text)
        return text


@dataclass(frozen=True, slots=True)
class Person:
    """Who has signed in. `id` is a pseudonym, `user` the name of their runs; `groups` None is that none were told."""

    id: str
    name: str
    user: str
    groups: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that has begun: where it goes on, and what the answer to it must fit."""

    url: str
    state: str
    nonce: str
    verifier: str


class Provider(Protocol):
    """Who says who somebody is. Both methods raise AccessError."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def sign_out_url(self) -> str | None: ...  # noqa: D102
    def begin(self) -> Begun: ...  # noqa: D102
    def finish(self, begun: Begun, answer: Mapping[str, str]) -> Person: ...  # noqa: D102


def principal_of(person: Person, grants: Mapping[str, Grant], provider: str) -> Principal:
    """Return what somebody may: the role of the first group that is named, and its teams with those of further groups.

    A further group of another role adds nothing: who owns one team's findings does not own another's.

    Raises:
        AccessError: 403, none of their groups is named.
    """
    own = [grant for group, grant in grants.items() if group in (person.groups or ())]
    if not own:
        raise AccessError(_FORBIDDEN, "groups", _no_access(person, provider), person.id)
    alike = [grant.teams for grant in own if grant.role == own[0].role]
    teams = None if None in alike else frozenset[str]().union(*(one for one in alike if one))
    return Principal(person.id, own[0].role, person.name, None, teams, person.user)


def _no_access(person: Person, provider: str) -> str:
    if person.groups is None:
        return f"{provider} did not tell your groups: an administrator looks at scopes and groups_claim of [{_TABLE}]"
    shown = ", ".join(one[:100] for one in person.groups[:_GROUPS_SHOWN])
    more = f" and {len(person.groups) - _GROUPS_SHOWN} more" if len(person.groups) > _GROUPS_SHOWN else ""
    told = f"none of your groups ({shown}{more}) has" if shown else "you are in no group that has"
    return f"you are {person.name}, and {told} a role here: an administrator names one in groups of [{_TABLE}]"
