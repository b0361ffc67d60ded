"""Who gets which mail: the whole fleet's, or one team's; and each as a message."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from analyzer.interfaces.mail.content import Content, Footer
from analyzer.interfaces.mail.message import Envelope, message
from analyzer.interfaces.mail.settings import MailSettings
from analyzer.interfaces.mail.unsubscribe import stop_url, subscription_id
from analyzer.text.words import plain

_FLEET = "fleet"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE = MailSettings(sender="gpuledger@example.com", recipients=("gpu-owners@example.com",))


@dataclass(frozen=True, slots=True)
class Edition:
    """One address and what it gets; `team` None is the whole fleet. `list_name` is what the registry knows it by."""

    list_name: str
    address: str
    team: str | None

    @property
    def id(self) -> str:
        """The id of its subscription."""
        return subscription_id(self.list_name, self.address)


def editions(settings: MailSettings) -> list[Edition]:
    """Return all editions of the settings, each address of a list once."""
    found = [Edition(_FLEET, address, None) for address in settings.recipients]
    found += [Edition(f"team:{team}", address, team) for team, address in settings.teams.items()]
    return list({edition.id: edition for edition in found}.values())


def tried(settings: MailSettings) -> MailSettings:
    """Return settings that suffice to write mails to files: those of an example where nothing is set yet."""
    return settings if settings.sender and editions(settings) else _EXAMPLE


def edition_message(
    edition: Edition, content: Content, settings: MailSettings, token: str | None, made_at_us: int
) -> bytes:
    """Return the mail to one address; `token` None is a trial, whose link stops nothing.

    Raises:
        ConfigError: its HTML would be over 100 KB.
    """
    host = re.sub(r"^https?://|[:/].*$", "", content.site_url or "") or settings.sender.rpartition("@")[2]
    cluster = _slug(content.cluster or "fleet")
    parts = [cluster, host] if edition.team is None else [_slug(edition.team), cluster, host]
    name = f"weekly report of {plain(content.cluster) if content.cluster else 'the fleet'}"
    link = stop_url(content.site_url, token if token is not None else "trial") if content.site_url else None
    sender_name = f"gpuledger {plain(content.cluster)}" if content.cluster else "gpuledger"
    envelope = Envelope(
        settings.sender,
        sender_name,
        edition.address,
        name if edition.team is None else f"{name} for {plain(edition.team)}",
        ".".join(["week", *parts]),
        f"<week.{_slug(content.period)}.{edition.id}@{settings.sender.rpartition('@')[2]}>",
        _EPOCH + timedelta(microseconds=made_at_us // 1_000_000 * 1_000_000),
        Footer(_why(edition), link, settings.stops_at or None),
    )
    return message(content, envelope)


def file_names(found: list[Edition], period: str) -> Mapping[str, str]:
    """Return for each edition's id the name of the file that a trial writes it to."""
    return {one.id: f"{_slug(period)}-{_slug(one.team or _FLEET)}-{one.id[:8]}.eml" for one in found}


def _why(edition: Edition) -> str:
    whose = "" if edition.team is None else f" for {plain(edition.team)}"
    return f"{edition.address} gets this{whose} once a week, never more."


def _slug(name: str) -> str:
    """Return a name as a part of a host's name: letters, digits and dashes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:50] or "none"
